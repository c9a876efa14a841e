"""Published systems as strategies: each sees a `NoisyCounter` alone, and so can make a real release."""

__all__: list[str] = []  # the registry loads each when its name is asked for
