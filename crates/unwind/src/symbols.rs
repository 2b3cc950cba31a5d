//! ELF symbols.
