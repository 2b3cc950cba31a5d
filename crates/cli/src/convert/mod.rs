//! `corprof convert`: profiles in the formats of other programs.
//!
//! A format is a file here, with one function that makes its bytes out of a profile.

mod collapsed;
mod firefox;
mod otlp;
mod pprof;
mod speedscope;
mod threads;

use clap::ValueEnum;

use crate::args::ConvertArgs;
use crate::failure::{FAILED, Failure, USAGE};
use crate::loaded::Loaded;
use crate::value::Value;
use crate::{destination, loading};

/// A format that profiles can be converted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// JSON for speedscope.app: a profile for each thread and value
    Speedscope,
    /// JSON for profiler.firefox.com, the Firefox Profiler
    Firefox,
    /// A line for each stack, as flamegraph.pl, inferno and many others read them
    Collapsed,
    /// pprof, gzipped: all files as one, or the part that the filters leave
    Pprof,
    /// OpenTelemetry's profiles (v1development), as protobuf
    Otlp,
}

impl Format {
    /// Whether its files hold all values, so that none is to be chosen.
    fn has_all_values(self) -> bool {
        match self {
            Self::Speedscope | Self::Firefox | Self::Collapsed => false,
            Self::Pprof | Self::Otlp => true,
        }
    }

    fn bytes(self, loaded: &Loaded, value: Option<Value>) -> Result<Vec<u8>, Failure> {
        let profile = &loaded.profile;
        let one = value.unwrap_or_else(|| Value::first_of(&profile.total()));
        Ok(match self {
            Self::Speedscope => speedscope::bytes(loaded, value)?,
            Self::Firefox => firefox::bytes(loaded, one)?,
            Self::Collapsed => collapsed::bytes(profile, one),
            Self::Pprof => pprof::bytes(profile)?,
            Self::Otlp => otlp::bytes(loaded),
        })
    }
}

/// Runs the command; the exit code says whether all files could be read.
pub fn convert(args: &ConvertArgs) -> Result<u8, Failure> {
    if args.value.is_some() && args.to.has_all_values() {
        let message = "--value chooses one, and files of this format hold all values; leave it out";
        return Err(Failure::new(USAGE, message));
    }
    destination::refuse_input(&args.out, &args.files)?;
    let wanted = if args.to.has_all_values() { Vec::new() } else { Value::or_any(args.value) };
    let (loaded, problems) = loading::load_filtered(&args.files, &args.filters, &wanted)?;
    let bytes = args.to.bytes(&loaded, args.value)?;
    destination::write(&args.out, &bytes)?;
    Ok(if problems == 0 { 0 } else { FAILED })
}
