"""Systems that others published, as strategies: each sees a `NoisyCounter` and can make a real release."""

__all__: list[str] = []  # the registry loads each when its name is asked for
