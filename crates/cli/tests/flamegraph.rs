//! `corprof flamegraph`: the file; `tests/e2e` looks at it in a browser.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
mod support;

use support::made::made;
use support::{Dir, profile_bytes};

/// Bytes of a page that one can send to somebody.
const BYTES_MAX: usize = 2 << 20;

#[test]
fn a_page_of_fifty_thousand_stacks_is_small_enough_to_send() {
    let dir = Dir::new();
    let profile = made(1, 50_000);
    assert!(profile.samples.len() > 50_000, "{}", profile.samples.len());
    dir.write("a.pb.gz", &profile::pprof::write(&profile, Vec::new()).unwrap());
    dir.run(&["flamegraph", "a.pb.gz", "-o", "a.html"]).check(0, &[]);
    let bytes = std::fs::metadata(dir.path("a.html")).unwrap().len();
    println!("a page of 50,000 stacks has {bytes} bytes");
    assert!(bytes <= BYTES_MAX as u64, "{bytes}");
}

#[test]
fn the_page_goes_where_it_is_wanted_or_not_at_all() {
    let dir = Dir::new();
    dir.write("a.pb.gz", &profile_bytes(1, 0));
    let ran = dir.run(&["flamegraph", "a.pb.gz", "-o", "-"]);
    ran.check(0, &[]);
    assert!(ran.out.starts_with("<!DOCTYPE html>") && ran.out.trim_end().ends_with("</html>"));
    // No text of a profile is a part of the page's own: what a method is called can't harm it.
    assert!(!ran.out.contains("Shop.Prices"));
    let nothing = dir.run(&["flamegraph", "a.pb.gz", "-o", "b.html", "--state", "lock"]);
    nothing.check(1, &["nothing matches --state lock"]);
    let only = ["flamegraph", "a.pb.gz", "-o", "b.html", "--state", "sleeping", "--value", "cpu"];
    let why =
        "--state sleeping leaves none of it; choose another --value (there is wall), or other";
    dir.run(&only).check(1, &["the profiles have cpu time, but", why]);
    let gc = dir.run(&["flamegraph", "a.pb.gz", "-o", "b.html", "--value", "gc"]);
    gc.check(1, &["the profiles have no gc time; choose another --value: there is cpu and wall"]);
    dir.run(&["flamegraph", "missing.pb.gz", "-o", "b.html"]).check(1, &["missing.pb.gz"]);
    assert!(!dir.path("b.html").exists());
}
