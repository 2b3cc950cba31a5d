//! The library that CoreCLR loads.
