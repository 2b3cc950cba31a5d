//! `corprof flamegraph`: a page that shows profiles, in one file that needs nothing else.

mod pack;

use std::io::Write as _;

use flate2::Compression;
use flate2::write::ZlibEncoder;

use crate::args::FlamegraphArgs;
use crate::failure::{FAILED, Failure};
use crate::filters::Filters;
use crate::loaded::Loaded;
use crate::value::Value;
use crate::{destination, loading};

/// The page without a profile, made of the sources in `ui` by `cargo xtask ui`.
const PAGE: &str = include_str!("../../../../ui/dist/flamegraph.html");
/// Where the profile goes.
const PLACE: &str = "@@PROFILE@@";

/// Runs the command; the exit code says whether all files could be read.
pub fn flamegraph(args: &FlamegraphArgs) -> Result<u8, Failure> {
    destination::refuse_input(&args.out, &args.files)?;
    let wanted = Value::or_any(args.value);
    let (loaded, problems) = loading::load_filtered(&args.files, &args.filters, &wanted)?;
    let value = args.value.unwrap_or_else(|| Value::first_of(&loaded.profile.total()));
    destination::write(&args.out, page(&loaded, value, &args.filters)?.as_bytes())?;
    Ok(if problems == 0 { 0 } else { FAILED })
}

/// The page with the profiles in it, of which these filters have left a part; it shows that value
/// first.
fn page(loaded: &Loaded, value: Value, filters: &Filters) -> anyhow::Result<String> {
    let mut deflated = ZlibEncoder::new(Vec::new(), Compression::best());
    deflated.write_all(&pack::bytes(loaded, value, filters)?)?;
    let profile = export::base64(&deflated.finish()?);
    let (before, after) = PAGE.split_once(PLACE).unwrap_or((PAGE, ""));
    Ok([before, &profile, after].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_one_place_for_a_profile_and_asks_nobody_for_anything() {
        assert_eq!(PAGE.matches(PLACE).count(), 1);
        assert!(PAGE.contains("default-src 'none'"));
        for word in ["src=\"", "href=\"http", "url(http", "fetch(", "XMLHttpRequest", "@import"] {
            assert!(!PAGE.contains(word), "{word}");
        }
    }
}
