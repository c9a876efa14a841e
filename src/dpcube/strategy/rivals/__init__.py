"""Systems that others published, as strategies: each sees a `NoisyCounter` and can make a real release."""
