//! `corprof convert`: each format, read by another reader than ours where Rust has one, holds what
//! the profile holds.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
mod support;

use std::collections::{BTreeMap, BTreeSet};

use inferno::flamegraph::{self, Options};
use opentelemetry_proto::tonic::profiles::v1development::ProfilesData;
use profile::{Profile, Values, read};
use prost::Message as _;
use serde_json::Value as Json;
use support::made::made;
use support::{Dir, profile_bytes};

/// Nanoseconds by function: its own, and with what it called.
type Totals = BTreeMap<String, (u64, u64)>;

/// What adds up stacks, whoever tells them.
#[derive(Default)]
struct Sum(Totals);

impl Sum {
    /// Adds a stack, the root first.
    fn add<'a>(&mut self, stack: impl IntoIterator<Item = &'a str>, ns: u64) {
        let stack: Vec<&str> = stack.into_iter().collect();
        if ns == 0 {
            return;
        }
        if let Some(leaf) = stack.last() {
            self.0.entry((*leaf).to_owned()).or_default().0 += ns;
        }
        for name in BTreeSet::from_iter(stack) {
            self.0.entry(name.to_owned()).or_default().1 += ns;
        }
    }
}

/// What the profile says.
fn totals(profile: &Profile, value: Value) -> Totals {
    let mut sum = Sum::default();
    for sample in &profile.samples {
        let name = |frame| profile.text(profile.function_of(frame).unwrap().name);
        let mut stack: Vec<&str> = profile.stack(sample.stack).map(name).collect();
        stack.reverse();
        sum.add(stack, value(&sample.values));
    }
    sum.0
}

/// One of a sample's values.
type Value = fn(&Values) -> u64;

const VALUES: [(&str, Value); 3] = [
    ("cpu", |values| values.cpu_ns),
    ("wall", |values| values.wall_ns),
    ("gc", |values| values.gc_ns),
];

/// A folder with a profile in two files, and that profile.
fn two_files() -> (Dir, Profile) {
    let dir = Dir::new();
    let profiles = [made(7, 800), made(8, 300)];
    for (name, profile) in ["in/a.pb.gz", "in/b.pb.gz"].into_iter().zip(&profiles) {
        dir.write(name, &profile::pprof::write(profile, Vec::new()).unwrap());
    }
    (dir, read::merge(&profiles))
}

fn converted(dir: &Dir, arguments: &[&str]) -> Vec<u8> {
    let ran = dir.run(&[&["convert", "in", "-o", "out"], arguments].concat());
    ran.check(0, &[]);
    assert_eq!((ran.out.as_str(), ran.err.as_str()), ("", ""));
    std::fs::read(dir.path("out")).unwrap()
}

#[test]
fn inferno_draws_the_collapsed_stacks_as_they_are() {
    let (dir, profile) = two_files();
    for (name, value) in VALUES {
        let bytes = converted(&dir, &["--to", "collapsed", "--value", name]);
        let mut options = Options::default();
        options.min_width = 0.0;
        options.count_name = "ns".to_owned();
        let mut svg = Vec::new();
        flamegraph::from_reader(&mut options, bytes.as_slice(), &mut svg).unwrap();
        let drawn = drawn(&String::from_utf8(svg).unwrap());
        assert_eq!(drawn, totals(&profile, value), "{name}");
    }
}

/// The boxes of a flame graph of inferno's, added up: each says where it begins and how wide it is,
/// in the unit of the values.
fn drawn(svg: &str) -> Totals {
    let mut boxes: Vec<(u64, u64, f64, String)> = Vec::new();
    for group in svg.split("<g>").skip(1).filter(|group| group.contains("fg:x=")) {
        let attribute = |name: &str| {
            let rest = group.split_once(&format!(" {name}=\"")).unwrap().1;
            rest.split_once('"').unwrap().0
        };
        let title = group.split_once("<title>").unwrap().1.split_once("</title>").unwrap().0;
        let name = title.rsplit_once(" (").unwrap().0;
        let name = name.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
        let number = |name| attribute(name).parse::<u64>().unwrap();
        boxes.push((number("fg:x"), number("fg:w"), attribute("y").parse().unwrap(), name));
    }
    // The topmost row is the root; its y is the largest, as this is no icicle.
    boxes.sort_by(|a, b| a.0.cmp(&b.0).then(b.2.total_cmp(&a.2)));
    let mut sum = Sum::default();
    let mut open: Vec<(u64, u64, String)> = Vec::new();
    let mut close = |open: &mut Vec<(u64, u64, String)>, until: u64| {
        while open.last().is_some_and(|(end, _, _)| *end <= until) {
            let stack: Vec<String> = open.iter().skip(1).map(|(_, _, name)| name.clone()).collect();
            let (_, own, _) = open.pop().unwrap();
            sum.add(stack.iter().map(String::as_str), own);
        }
    };
    for (begin, width, _, name) in boxes {
        close(&mut open, begin);
        if let Some((_, own, _)) = open.last_mut() {
            *own -= width;
        }
        open.push((begin + width, width, name));
    }
    close(&mut open, u64::MAX);
    sum.0
}

#[test]
fn speedscope_has_a_profile_for_each_thread_and_value() {
    let (dir, profile) = two_files();
    let file: Json = serde_json::from_slice(&converted(&dir, &["--to", "speedscope"])).unwrap();
    let frames = file["shared"]["frames"].as_array().unwrap();
    let profiles = file["profiles"].as_array().unwrap();
    for (name, value) in VALUES {
        let mut sum = Sum::default();
        let mut threads = 0;
        for profile in profiles {
            if !profile["name"].as_str().unwrap().starts_with(&format!("{name} · ")) {
                continue;
            }
            threads += 1;
            assert_eq!(profile["unit"], "nanoseconds");
            let samples = profile["samples"].as_array().unwrap();
            let weights = profile["weights"].as_array().unwrap();
            assert_eq!(samples.len(), weights.len());
            let weights: Vec<u64> = weights.iter().map(|ns| ns.as_u64().unwrap()).collect();
            assert_eq!(profile["endValue"], weights.iter().sum::<u64>());
            for (stack, ns) in samples.iter().zip(weights) {
                let position = |frame: &Json| frame.as_u64().unwrap() as usize;
                let name = |frame| frames[position(frame)]["name"].as_str().unwrap();
                sum.add(stack.as_array().unwrap().iter().map(name), ns);
            }
        }
        assert_eq!(threads, if name == "gc" { 1 } else { 24 });
        assert_eq!(sum.0, totals(&profile, value), "{name}");
    }
    let only = converted(&dir, &["--to", "speedscope", "--value", "gc"]);
    let only: Json = serde_json::from_slice(&only).unwrap();
    assert_eq!(only["profiles"].as_array().unwrap().len(), 1);
}

/// As the Firefox Profiler goes through its tables.
#[test]
fn the_firefox_format_adds_up_through_its_tables() {
    let (dir, profile) = two_files();
    for (value, of) in VALUES {
        let bytes = converted(&dir, &["--to", "firefox", "--value", value]);
        let file: Json = serde_json::from_slice(&bytes).unwrap();
        let shared = &file["shared"];
        for table in ["stackTable", "frameTable", "funcTable", "resourceTable"] {
            let table = shared[table].as_object().unwrap();
            for (name, column) in table.iter().filter(|(name, _)| *name != "length") {
                let rows = column.as_array().unwrap().len();
                assert_eq!(Some(rows as u64), table["length"].as_u64(), "{name}");
            }
        }
        let at = |table: &str, column: &str, row: &Json| {
            shared[table][column][row.as_u64().unwrap() as usize].clone()
        };
        let mut sum = Sum::default();
        for thread in file["threads"].as_array().unwrap() {
            let samples = &thread["samples"];
            assert_eq!(samples["weightType"], "tracing-ms");
            for row in 0..samples["length"].as_u64().unwrap() as usize {
                let mut names = Vec::new();
                let mut stack = samples["stack"][row].clone();
                while !stack.is_null() {
                    let function = at("frameTable", "func", &at("stackTable", "frame", &stack));
                    let name = at("funcTable", "name", &function);
                    let name = &shared["stringArray"][name.as_u64().unwrap() as usize];
                    names.push(name.as_str().unwrap().to_owned());
                    stack = at("stackTable", "prefix", &stack);
                }
                let ns = (samples["weight"][row].as_f64().unwrap() * 1e6).round() as u64;
                sum.add(names.iter().rev().map(String::as_str), ns);
            }
        }
        assert_eq!(sum.0, totals(&profile, of), "{value}");
        let categories = file["meta"]["categories"].as_array().unwrap();
        assert!(categories.iter().any(|category| category["color"] == "grey"));
    }
}

#[test]
fn pprof_has_all_that_the_files_have() {
    let (dir, profile) = two_files();
    let decoded = read::decode(&converted(&dir, &["--to", "pprof"])).unwrap().profile;
    for (name, value) in VALUES {
        assert_eq!(totals(&decoded, value), totals(&profile, value), "{name}");
    }
    assert_eq!(decoded.samples.len(), profile.samples.len());
    assert_eq!(decoded.endpoints.len(), 5);
    // A part of it, to standard output.
    let ran = dir.run(&["convert", "in", "--to", "collapsed", "-o", "-", "--label", "tenant=big"]);
    ran.check(0, &[]);
    let sum: u64 =
        ran.out.lines().map(|l| l.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum();
    let big = |sample: &&profile::Sample| profile.labels_of(sample).any(|label| label.1 == "big");
    let expected: u64 = profile.samples.iter().filter(big).map(|sample| sample.values.cpu_ns).sum();
    assert_eq!(sum, expected);
}

#[test]
fn opentelemetrys_definitions_read_what_the_files_have() {
    let (dir, profile) = two_files();
    let bytes = converted(&dir, &["--to", "otlp"]);
    assert_eq!(bytes, converted(&dir, &["--to", "otlp"]), "the same again");
    let data = ProfilesData::decode(bytes.as_slice()).unwrap();
    let tables = data.dictionary.unwrap();
    let text = |at: i32| tables.string_table[at as usize].as_str();
    let name = |at: &i32| {
        let location = &tables.location_table[*at as usize];
        text(tables.function_table[location.lines[0].function_index as usize].name_strindex)
    };
    let profiles = &data.resource_profiles[0].scope_profiles[0].profiles;
    for (kind, value) in VALUES {
        let mut sum = Sum::default();
        let is_it = |p: &&_| text(kind_of(p)) == kind;
        for sample in &profiles.iter().find(is_it).unwrap().samples {
            let stack = &tables.stack_table[sample.stack_index as usize];
            sum.add(stack.location_indices.iter().rev().map(name), sample.values[0] as u64);
        }
        assert_eq!(sum.0, totals(&profile, value), "{kind}");
    }
}

/// Where the name of a profile's type of value is.
fn kind_of(profile: &opentelemetry_proto::tonic::profiles::v1development::Profile) -> i32 {
    profile.sample_type.as_ref().unwrap().type_strindex
}

#[test]
fn what_is_not_possible_is_told() {
    let dir = Dir::new();
    dir.write("a.pb.gz", &profile_bytes(1, 0));
    let run = |arguments: &[&str]| dir.run(&[&["convert", "a.pb.gz"], arguments].concat());
    run(&["--to", "svg", "-o", "x"]).check(2, &["speedscope"]);
    for all in ["pprof", "otlp"] {
        run(&["--to", all, "-o", "x", "--value", "cpu"]).check(2, &["hold all values"]);
    }
    run(&["--to", "collapsed", "-o", "x", "--value", "gc"]).check(1, &["have no gc time"]);
    let only = ["--to", "collapsed", "-o", "x", "--value", "cpu", "--state", "sleeping"];
    run(&only).check(1, &["the profiles have cpu time, but --state sleeping leaves none of it"]);
    run(&["--to", "collapsed", "-o", "no/x"]).check(1, &["no/x: can't be written"]);
    assert!(!dir.path("x").exists());
    // One of two files can't be read: the other is converted, and the code says so.
    dir.write("bad.pb.gz", b"bad");
    run(&["bad.pb.gz", "--to", "collapsed", "-o", "x"]).check(1, &["bad.pb.gz"]);
    let text = std::fs::read_to_string(dir.path("x")).unwrap();
    let sum = "Shop.Program.Main(string[]);Shop.Prices.Sum(int);Shop.Prices.Sum(int) 300000000\n";
    assert_eq!(text, format!("{sum}[garbage collector] 100000000\n"));
}

/// Also in a folder, and through links.
#[cfg(unix)]
#[test]
fn an_input_is_not_overwritten() {
    let dir = Dir::new();
    let bytes = profile_bytes(7, 0);
    let file = dir.write("in/a.pb.gz", &bytes);
    std::os::unix::fs::symlink(&file, dir.path("symbolic")).unwrap();
    std::fs::hard_link(&file, dir.path("hard")).unwrap();
    for command in [&["convert", "--to", "collapsed"][..], &["flamegraph"]] {
        for input in ["in", "in/a.pb.gz"] {
            for out in ["in/a.pb.gz", "in/../in/a.pb.gz", "symbolic", "hard"] {
                let ran = dir.run(&[command, &[input, "-o", out]].concat());
                ran.check(2, &[&format!("-o {out}: this is in/a.pb.gz, which is read")]);
                assert_eq!(std::fs::read(&file).unwrap(), bytes);
            }
        }
        // Beside it there is room.
        dir.run(&[command, &["in", "-o", "in/other"]].concat()).check(0, &[]);
    }
}

/// What is named as the output keeps being what it is: a link to a file or to a descriptor, and a
/// file that not everybody may read.
#[cfg(target_os = "linux")]
#[test]
fn an_output_keeps_what_it_is() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let dir = Dir::new();
    dir.write("a.pb.gz", &profile_bytes(7, 0));
    let text = |name: &str| std::fs::read_to_string(dir.path(name)).unwrap_or_default();
    for command in ["convert a.pb.gz --to collapsed", "flamegraph a.pb.gz"] {
        dir.write("target", b"old");
        symlink("target", dir.path("link")).unwrap();
        symlink("new", dir.path("dangling")).unwrap();
        symlink("/proc/self/fd/1", dir.path("stdout")).unwrap();
        std::fs::set_permissions(dir.path("target"), PermissionsExt::from_mode(0o640)).unwrap();
        for out in ["link", "dangling", "target"] {
            let words: Vec<&str> = command.split(' ').chain(["-o", out]).collect();
            dir.run(&words).check(0, &[]);
        }
        for out in ["stdout", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"] {
            let script = format!("\"$CORPROF\" {command} -o {out} > redirected");
            let mut shell = std::process::Command::new("sh");
            shell.args(["-c", &script]).env("CORPROF", env!("CARGO_BIN_EXE_corprof"));
            assert!(shell.current_dir(dir.path("")).status().unwrap().success(), "{out}");
            assert_eq!(text("redirected"), text("target"), "{out}");
        }
        assert!(text("target").len() > 50 && text("new") == text("target"));
        for link in ["link", "dangling", "stdout"] {
            let about = std::fs::symlink_metadata(dir.path(link)).unwrap();
            assert!(about.is_symlink(), "{link}");
            std::fs::remove_file(dir.path(link)).unwrap();
        }
        let mode = std::fs::metadata(dir.path("target")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
    }
    assert!(std::fs::symlink_metadata("/dev/stdout").unwrap().is_symlink());
}
