//! `corprof doctor`: what it looks at is Linux's.

use crate::args::DoctorArgs;
use crate::failure::{FAILED, Failure};

/// Says that there is none here, and where to look.
pub fn doctor(_args: &DoctorArgs) -> Result<u8, Failure> {
    Err(Failure::new(
        FAILED,
        "`corprof doctor` looks at Linux only; on Windows see the table in \
         docs/troubleshooting.md, and the agent's own log (CORPROF_LOG=debug, CORPROF_LOG_FILE)",
    ))
}
