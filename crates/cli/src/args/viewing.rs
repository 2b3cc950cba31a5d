//! The flags of the commands that turn profiles into something to look at.

use std::path::PathBuf;

use clap::Args;

use crate::convert::Format;
use crate::filters::Filters;
use crate::value::Value;

pub const CONVERT_LONG: &str = "\
Write profiles in the format of another program, to open them there.

Several files are merged, as `corprof top` does. All frames and all values are kept, also those that
`corprof top` leaves out without --all.";

pub const CONVERT_EXAMPLES: &str = "\
Examples:
  corprof convert corprof-out/MyApp-20261129-101500 --to speedscope -o MyApp.speedscope.json
  corprof convert profiles/ --to firefox --value wall -o MyApp.json
  corprof convert profiles/ --to collapsed -o - | flamegraph.pl > MyApp.svg
  corprof convert a.pb.gz b.pb.gz --to pprof --endpoint 'GET /orders/*' -o orders.pb.gz";

/// `corprof convert`.
#[derive(Args, Debug)]
pub struct ConvertArgs {
    /// Profiles (pprof, gzipped or plain, also of other tools), or folders of them
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,

    /// The format
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub to: Format,

    /// The file to write; - is standard output
    #[arg(short, long, value_name = "OUT")]
    pub out: PathBuf,

    /// The value of samples [default: cpu, or what there is; with speedscope all, each in profiles
    /// of its own]
    #[arg(long, value_enum, value_name = "VALUE")]
    pub value: Option<Value>,

    /// Which samples are converted.
    #[command(flatten)]
    pub filters: Filters,
}
