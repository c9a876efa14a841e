"""Systems to compare with that the gate cannot express: research code whose output is not private."""
