//! pprof: several files as one, or a part of them.

use std::io;

use profile::Profile;

/// The file, gzipped.
pub fn bytes(profile: &Profile) -> io::Result<Vec<u8>> {
    profile::pprof::write(profile, Vec::new())
}
