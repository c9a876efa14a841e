"""The paper's formal results as functions, each in the paper's form and in the exact one."""
