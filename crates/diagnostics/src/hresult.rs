//! Result codes of the runtime, and what those mean that one meets.

use std::fmt;

/// An HRESULT: an error if its highest bit is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hresult(pub u32);

impl Hresult {
    /// All is well.
    pub const OK: Self = Self(0);
    /// `E_NOTIMPL`: there is no such thing in this runtime.
    pub const NOT_IMPLEMENTED: Self = Self(0x8000_4001);
    /// `E_FAIL`.
    pub const FAIL: Self = Self(0x8000_4005);
    /// `ERROR_FILE_NOT_FOUND`.
    pub const FILE_NOT_FOUND: Self = Self(0x8007_0002);
    /// `E_INVALIDARG`.
    pub const INVALID_ARGUMENT: Self = Self(0x8007_0057);
    /// `ERROR_MOD_NOT_FOUND`: the loader could not load the library.
    pub const LIBRARY_NOT_LOADED: Self = Self(0x8007_007e);
    /// `ERROR_BAD_EXE_FORMAT`.
    pub const BAD_FORMAT: Self = Self(0x8007_00c1);
    /// `CORPROF_E_NOT_YET_AVAILABLE`: the runtime is starting.
    pub const NOT_YET_AVAILABLE: Self = Self(0x8013_135b);
    /// `CORPROF_E_PROFILER_DETACHING`.
    pub const DETACHING: Self = Self(0x8013_1367);
    /// `CORPROF_E_PROFILER_NOT_ATTACHABLE`: the profiler does not want to be attached.
    pub const NOT_ATTACHABLE: Self = Self(0x8013_1368);
    /// `CORPROF_E_PROFILER_ALREADY_ACTIVE`: there is one already.
    pub const ALREADY_ACTIVE: Self = Self(0x8013_136a);
    /// `CORPROF_E_RUNTIME_UNINITIALIZED`: the runtime is starting.
    pub const UNINITIALIZED: Self = Self(0x8013_1371);
    /// `CORPROF_E_PROFILER_CANCEL_ACTIVATION`: the profiler does not want to profile.
    pub const CANCELLED: Self = Self(0x8013_1375);
    /// `CORPROF_E_TIMEOUT_WAITING_FOR_CONCURRENT_GC`.
    pub const COLLECTION_IN_PROGRESS: Self = Self(0x8013_1379);
    /// `CORDIAGIPC_E_BAD_ENCODING`.
    pub const BAD_ENCODING: Self = Self(0x8013_1384);
    /// `CORDIAGIPC_E_UNKNOWN_COMMAND`.
    pub const UNKNOWN_COMMAND: Self = Self(0x8013_1385);
    /// `CORDIAGIPC_E_UNKNOWN_MAGIC`.
    pub const UNKNOWN_MAGIC: Self = Self(0x8013_1386);
    /// `CORDIAGIPC_E_UNKNOWN_ERROR`.
    pub const UNKNOWN_ERROR: Self = Self(0x8013_1387);
    /// `COR_E_NOTSUPPORTED`.
    pub const NOT_SUPPORTED: Self = Self(0x8013_1515);

    /// Whether it stands for success.
    #[must_use]
    pub fn is_ok(self) -> bool {
        self.0 < 0x8000_0000
    }

    /// Whether the same request may succeed in a moment: the runtime is still starting, or has not
    /// done with a profiler that leaves.
    #[must_use]
    pub fn is_too_early(self) -> bool {
        [Self::NOT_YET_AVAILABLE, Self::UNINITIALIZED, Self::DETACHING].contains(&self)
    }

    /// What it means; `None` for those that say nothing here.
    #[must_use]
    pub fn meaning(self) -> Option<&'static str> {
        Some(match self {
            Self::OK => "success",
            Self::NOT_IMPLEMENTED | Self::NOT_SUPPORTED => "this runtime has no such thing",
            Self::FAIL => "it failed, with no reason given",
            Self::FILE_NOT_FOUND => "there is no such file",
            Self::INVALID_ARGUMENT => "an argument is not valid",
            Self::LIBRARY_NOT_LOADED => "the library could not be loaded",
            Self::BAD_FORMAT => "the library is made for another system",
            Self::NOT_YET_AVAILABLE | Self::UNINITIALIZED => "the runtime is still starting",
            Self::DETACHING => "the profiler before is still being detached",
            Self::NOT_ATTACHABLE => "the profiler can't be attached to a running process",
            Self::ALREADY_ACTIVE => "another profiler is loaded",
            Self::CANCELLED => "the profiler refused to profile this process",
            Self::COLLECTION_IN_PROGRESS => "a garbage collection did not end in time",
            Self::BAD_ENCODING => "the runtime could not read the request",
            Self::UNKNOWN_COMMAND => "this runtime does not know the request",
            Self::UNKNOWN_MAGIC => "the runtime speaks another protocol",
            Self::UNKNOWN_ERROR => "the diagnostics server failed",
            _ => return None,
        })
    }
}

impl fmt::Display for Hresult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.meaning() {
            Some(meaning) => write!(f, "{meaning} (0x{:08X})", self.0),
            None => write!(f, "error 0x{:08X}", self.0),
        }
    }
}
