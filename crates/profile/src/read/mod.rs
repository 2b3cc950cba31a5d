//! Reading pprof files, of anybody and in any state, and adding several up.
