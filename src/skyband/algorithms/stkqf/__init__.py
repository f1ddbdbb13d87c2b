"""STKQF (Jing et al.): partitions of the window, SAP, PH-Base, PH-Tree, the skyline of queries."""
