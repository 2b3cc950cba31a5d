//! `corprof flamegraph`: a page that shows profiles, in one file that needs nothing else.

mod pack;

use std::io::Write as _;

use flate2::Compression;
use flate2::write::ZlibEncoder;

use crate::args::FlamegraphArgs;
use crate::failure::{FAILED, Failure};
use crate::loaded::Loaded;
use crate::value::Value;
use crate::{destination, loading};

/// The page without a profile, made of the sources in `ui` by `cargo xtask ui`.
const PAGE: &str = include_str!("../../../../ui/dist/flamegraph.html");
/// Where the profile goes.
const PLACE: &str = "@@PROFILE@@";

/// Runs the command; the exit code says whether all files could be read.
pub fn flamegraph(args: &FlamegraphArgs) -> Result<u8, Failure> {
    let (loaded, problems) = loading::load_filtered(&args.files, &args.filters)?;
    let value = args.value.unwrap_or_else(|| Value::first_of(&loaded.profile.total()));
    destination::write(&args.out, page(&loaded, value)?.as_bytes())?;
    Ok(if problems == 0 { 0 } else { FAILED })
}

/// The page with the profiles in it, which shows that value first.
fn page(loaded: &Loaded, value: Value) -> anyhow::Result<String> {
    let mut deflated = ZlibEncoder::new(Vec::new(), Compression::best());
    deflated.write_all(&pack::bytes(loaded, value)?)?;
    let profile = base64(&deflated.finish()?);
    let (before, after) = PAGE.split_once(PLACE).unwrap_or((PAGE, ""));
    Ok([before, &profile, after].concat())
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The bytes as text that a page can hold.
fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            let number = bits >> (18 - 6 * digit) & 63;
            let letter = DIGITS.get(number as usize).copied().unwrap_or(b'=');
            text.push(if digit > group.len() { '=' } else { char::from(letter) });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_as_the_standard_has_it() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
        assert_eq!(base64(&[0xff, 0xef, 0xbe]), "/+++");
    }

    #[test]
    fn the_page_has_one_place_for_a_profile_and_asks_nobody_for_anything() {
        assert_eq!(PAGE.matches(PLACE).count(), 1);
        assert!(PAGE.contains("default-src 'none'"));
        for word in ["src=\"", "href=\"http", "url(http", "fetch(", "XMLHttpRequest", "@import"] {
            assert!(!PAGE.contains(word), "{word}");
        }
    }
}
