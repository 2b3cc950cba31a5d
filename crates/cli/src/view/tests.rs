//! What the columns add up to is what the profiles say.

use model::ThreadState;
use profile::{Label, Profile, Sample, SelfReport};

use super::columns::{Columns, Identity};
use super::lanes::{Window, lanes};
use super::selection::{Selection, Weights};
use super::sums::{NODES_MAX, Sums};
use super::{changes, requests};
use crate::endpoints;
use crate::value::Value;
use made::{made, made_with_moments};

#[path = "../../tests/support/made.rs"]
mod made;

fn columns(profiles: &[Profile]) -> Columns {
    let mut columns = Columns::default();
    for (at, profile) in profiles.iter().enumerate() {
        let identity = Identity {
            name: format!("{at}.pb.gz"),
            service: if at == 0 { "one" } else { "two" }.to_owned(),
            ..Identity::default()
        };
        columns.add(identity, profile);
    }
    columns
}

fn sums(columns: &Columns, selection: &Selection) -> Sums {
    Sums::of(columns, selection, &Weights::new(columns, selection.range))
}

/// The profile's own sum of samples.
fn expected(profile: &Profile, value: Value, keeps: impl Fn(&Sample) -> bool) -> f64 {
    let samples = profile.samples.iter().filter(|sample| keeps(sample));
    samples.map(|sample| value.of(&sample.values) as f64).sum()
}

#[test]
fn each_filter_leaves_what_it_should() {
    let profiles = [made(1, 400), made(2, 300)];
    let columns = columns(&profiles);
    let [one, two] = &profiles;
    let all = Selection { fold: false, value: Value::Wall, ..Selection::default() };
    let whole = |selection: &Selection| sums(&columns, selection).whole();
    let both = |keeps: &dyn Fn(&Profile, &Sample) -> bool| {
        let of = |profile| expected(profile, Value::Wall, |sample| keeps(profile, sample));
        of(one) + of(two)
    };
    assert_eq!(whole(&all), both(&|_, _| true));
    assert_eq!(
        whole(&Selection { service: Some("one".into()), ..all.clone() }),
        expected(one, Value::Wall, |_| true)
    );
    assert_eq!(
        whole(&Selection { source: Some(1), ..all.clone() }),
        expected(two, Value::Wall, |_| true)
    );
    let lock = ThreadState::ALL.iter().position(|state| *state == ThreadState::Lock).unwrap() + 1;
    assert_eq!(
        whole(&Selection { state: u8::try_from(lock).ok(), ..all.clone() }),
        both(&|_, sample| sample.state == Some(ThreadState::Lock))
    );
    let name = "GET /things/3";
    let endpoint = columns.endpoints.list.iter().position(|other| other == name).unwrap();
    assert_eq!(
        whole(&Selection { endpoint: u32::try_from(endpoint).ok(), ..all.clone() }),
        both(&|profile, sample| endpoints::name_of(profile, sample) == name)
    );
    assert_eq!(
        whole(&Selection { request: Some(4), ..all.clone() }),
        both(&|profile, sample| profile
            .span_of(sample)
            .is_some_and(|span| span.ids.local_root_span_id == 4))
    );
    let has = |profile: &Profile, label: &Label| profile.text(label.value) == "big";
    assert_eq!(
        whole(&Selection { label: Some("tenant=big".into()), ..all.clone() }),
        both(&|profile, sample| sample
            .labels
            .is_some_and(|at| profile.labels[at.get()].iter().any(|label| has(profile, label))))
    );
    assert_eq!(whole(&Selection { request: Some(77_777), ..all }), 0.0);
}

/// What is counted grows with each profile, by no less than its rows and moments, and what is known
/// already is not counted again.
#[test]
fn memory_is_counted() {
    let profile = made_with_moments(3, 50, 5_000);
    let once = columns(std::slice::from_ref(&profile)).bytes();
    let least = 60 * profile.samples.len() + 16 * profile.moments.len();
    assert!(once > least + 10_000, "{once} and {least}");
    let more = columns(&[profile.clone(), profile]).bytes() - once;
    assert!(more >= least && more < least + 4_000, "{more} and {least}");
}

#[test]
fn a_part_of_the_time_is_what_its_moments_are() {
    let profile = made_with_moments(3, 50, 5_000);
    let columns = columns(std::slice::from_ref(&profile));
    let begin = profile.period.start_unix_ns / 1_000;
    // Made stacks have time besides, of which nobody knows when it was.
    let (from, to) = (begin + 1_000_000_123, begin + 1_700_000_456);
    let selection = Selection {
        fold: false,
        value: Value::Wall,
        range: Some((from, to)),
        ..Selection::default()
    };
    let mut us = 0;
    for moment in &profile.moments {
        let (first, last) =
            (begin + u64::from(moment.begin_us), begin + u64::from(moment.end_us()));
        let is_wall = profile.samples[moment.sample as usize].values.wall_ns > 0;
        us += if is_wall { last.min(to).saturating_sub(first.max(from)) } else { 0 };
    }
    let whole = sums(&columns, &selection).whole();
    assert!((whole - us as f64 * 1_000.0).abs() < 1.0, "{whole} and {us} us");
    assert!(us > 1_000_000, "nothing is in it");
    // Two halves are the whole.
    let half =
        |range| sums(&columns, &Selection { range: Some(range), ..selection.clone() }).whole();
    let middle = begin + 1_234_567_890;
    assert!((half((from, middle)) + half((middle, to)) - whole).abs() < 1.0);
}

#[test]
fn a_long_wait_is_in_each_part_of_its_time() {
    let mut profile = made_with_moments(4, 5, 1);
    let sample = profile.samples.iter().position(|sample| sample.values.wall_ns > 0).unwrap();
    let sample = u32::try_from(sample).unwrap();
    let long = profile::Moment { begin_us: 5_000_000, duration_us: 100_000_000, sample };
    profile.moments = vec![long];
    let columns = columns(std::slice::from_ref(&profile));
    let begin = profile.period.start_unix_ns / 1_000;
    let range = Some((begin + 50_300_000, begin + 50_400_000));
    let all = Selection { fold: false, value: Value::Wall, range, ..Selection::default() };
    assert!((sums(&columns, &all).whole() - 1e8).abs() < 1.0);
    let sources = |_: usize, _: &super::columns::Source| true;
    let window = Window { from: begin, to: begin + 200_000_000, slots: 200, sources: &sources };
    let told = lanes(&columns, &window);
    let runs: Vec<u64> =
        told["lanes"][0]["runs"].as_array().unwrap().iter().filter_map(|n| n.as_u64()).collect();
    let lane = told["lanes"].as_array().unwrap().iter().any(|lane| {
        let runs: Vec<u64> =
            lane["runs"].as_array().into_iter().flatten().filter_map(|n| n.as_u64()).collect();
        runs.len() == 6 && (runs[0], runs[1], runs[2], runs[4], runs[5]) == (5, 0, 100, 95, 0)
    });
    assert!(lane, "{runs:?}");
}

/// A lane shows in each slot the state that the moments say, worked out in the plainest way.
#[test]
fn lanes_are_what_moments_are() {
    let profile = made_with_moments(9, 60, 8_000);
    let columns = columns(std::slice::from_ref(&profile));
    let begin = profile.period.start_unix_ns / 1_000;
    let sources = |_: usize, _: &super::columns::Source| true;
    let (rows, moments) = (&columns.rows, &columns.moments);
    let longest = (0..moments.row.len()).max_by_key(|at| moments.duration_us[*at]).unwrap();
    let longest = moments.begin_us[longest] - 5_000;
    // All of it, a part, and so little that a slot is shorter than a moment.
    for (from, length) in
        [(begin, 3_600_000_000), (begin + 700_000_123, 900_000_001), (longest, 300_000)]
    {
        let to = from + length;
        let told = lanes(&columns, &Window { from, to, slots: 150, sources: &sources });
        let mut compared = 0;
        for lane in told["lanes"].as_array().unwrap() {
            let runs: Vec<u64> =
                lane["runs"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect();
            let shown: Vec<u64> =
                runs.chunks(2).flat_map(|run| vec![run[1]; run[0] as usize]).collect();
            assert_eq!(shown.len(), 150);
            let mut us = vec![[0_u64; 16]; 150];
            for at in 0..moments.row.len() {
                let row = moments.row[at] as usize;
                if u64::from(rows.thread[row]) != lane["thread"] {
                    continue;
                }
                let (first, last) = (
                    moments.begin_us[at],
                    moments.begin_us[at] + u64::from(moments.duration_us[at]),
                );
                for (slot, us) in (0_u64..).zip(&mut us) {
                    let edge = |slot: u64| from + slot * length / 150;
                    let part = last.min(edge(slot + 1)).saturating_sub(first.max(edge(slot)));
                    us[usize::from(rows.state[row])] += part;
                }
            }
            for (us, shown) in us.iter().zip(shown) {
                let waits = [ThreadState::Sleeping, ThreadState::Waiting, ThreadState::Io];
                let weight = |state: usize| match ThreadState::ALL.get(state.wrapping_sub(1)) {
                    Some(state) if waits.contains(state) => 1,
                    _ => 4,
                };
                let mut order: Vec<(u64, usize)> =
                    us.iter().enumerate().map(|(state, us)| (us * weight(state), state)).collect();
                order.sort_unstable();
                let [.., second, (most, state)] = order.as_slice() else { unreachable!() };
                // At the edges of slots a microsecond of each moment is anybody's.
                if *most > second.0 + 400 {
                    compared += 1;
                    assert_eq!(shown, (*state as u64).max(1), "{us:?}");
                }
            }
        }
        assert!(compared > 5, "{compared}");
    }
}

#[test]
fn functions_and_both_sides_of_one_agree() {
    let columns = columns(&[made(5, 2_000)]);
    for fold in [false, true] {
        let sums = sums(&columns, &Selection { fold, ..Selection::default() });
        let functions = sums.functions(&columns);
        let own: f64 = functions.iter().map(|(_, own, _)| own).sum();
        assert!((own - sums.whole()).abs() < 1.0);
        for (of, _, total) in functions.into_iter().take(40) {
            let [callers, callees] = sums.sandwich(&columns, of);
            assert!((callers.total[0] - total).abs() < 1.0);
            assert!((callees.total[0] - total).abs() < 1.0);
        }
        let word = columns.functions[0].name.to_uppercase();
        let found = sums.matched(&columns, &word);
        assert!(found > 0.0 && found <= sums.whole());
    }
}

#[test]
fn of_a_large_tree_the_largest_nodes_are_sent_and_any_branch_of_it() {
    let columns = columns(&[made(6, 60_000)]);
    let selection = Selection { fold: false, ..Selection::default() };
    let sums = sums(&columns, &selection);
    let all = sums.branch(&columns, 0);
    assert!(all.is_cut && all.parents.len() <= NODES_MAX + 1, "{}", all.parents.len());
    assert!((all.total[0] - sums.whole()).abs() < 1.0);
    let least = all.total.iter().copied().fold(f64::MAX, f64::min);
    // A branch has nodes that the whole was too large for, and the way to its root.
    let zoom = all.ids.iter().zip(&all.total[1..]).rfind(|(_, total)| **total > 3.0 * least);
    let zoom = *zoom.unwrap().0;
    let branch = sums.branch(&columns, zoom);
    assert!(branch.ids.contains(&zoom));
    assert!(branch.total.iter().copied().fold(f64::MAX, f64::min) < least || !branch.is_cut);
}

#[test]
fn requests_cost_what_their_samples_are() {
    let profile = made(7, 500);
    let columns = columns(std::slice::from_ref(&profile));
    let selection = Selection { fold: false, ..Selection::default() };
    let told = requests::told(&columns, &selection, &Weights::default());
    let endpoints = told["endpoints"].as_array().unwrap();
    let cpu: f64 = endpoints.iter().filter_map(|row| row["cpu_ns"].as_f64()).sum();
    assert_eq!(cpu, expected(&profile, Value::Cpu, |_| true));
    let of = |name: &str| endpoints.iter().find(|row| row["name"] == name).unwrap();
    assert_eq!(of("GET /things/3")["requests"], 2.0);
    assert!(of("GET /things/3")["cpu_ns"].as_f64() > Some(0.0));
    let first = &told["requests"][0];
    let root = u64::from_str_radix(first["request"].as_str().unwrap(), 16).unwrap();
    let only = Selection { request: Some(root), ..selection };
    assert_eq!(first["cpu_ns"].as_f64().unwrap(), sums(&columns, &only).whole());
}

#[test]
fn the_same_does_not_differ_and_what_was_added_does() {
    let mut slower = made(8, 300);
    let columns_of = |slower: &Profile| columns(&[made(8, 300), slower.clone()]);
    let compare = |columns: &Columns| {
        let side = |source| Selection { source: Some(source), ..Selection::default() };
        let [base, new] = [side(0), side(1)];
        let weights = Weights::default();
        let sides = [&base, &new].map(|selection| changes::Side { selection, weights: &weights });
        changes::told(columns, sides, false)
    };
    let significant = |told: &serde_json::Value| {
        let rows = told["rows"].as_array().unwrap().clone();
        rows.into_iter().filter(|row| row["is_significant"] == true).collect::<Vec<_>>()
    };
    assert!(significant(&compare(&columns_of(&slower))).is_empty());
    let at = slower.samples.iter().position(|sample| sample.values.cpu_ns > 0).unwrap();
    slower.samples[at].values.count += 40_000;
    slower.samples[at].values.cpu_ns += 400_000_000_000;
    let told = compare(&columns_of(&slower));
    let frame = slower.stack(slower.samples[at].stack).next().unwrap();
    let name = slower.text(slower.function_of(frame).unwrap().name);
    let first = &significant(&told)[0];
    assert!(first["name"] == name || first["name"] == "[everything]", "{first}");
}

/// Two processes of three periods each are two repetitions on a side, as `corprof diff` has it; and
/// what its own periods differ by, as a start and what comes after it, is no chance.
#[test]
fn periods_of_a_process_are_one_repetition() {
    let side = |first: u64| {
        (0..6).map(move |at| {
            let mut profile = made(8, 300);
            let at_cpu = profile.samples.iter().position(|sample| sample.values.cpu_ns > 0);
            let values = &mut profile.samples[at_cpu.unwrap()].values;
            // The first period of each is a start, which is unlike the others; and the second side
            // has a little more of it.
            let starts = [4_000 + 1_000 * first, 10, 0][at % 3];
            values.count += starts;
            values.cpu_ns += 10_000_000 * starts;
            let instance = format!("process {first} {}", at / 3);
            profile.report = Some(SelfReport { instance, ..SelfReport::default() });
            profile
        })
    };
    let mut profiles: Vec<Profile> = side(0).chain(side(1)).collect();
    let told = |profiles: &[Profile]| {
        let mut columns = Columns::default();
        for (at, profile) in profiles.iter().enumerate() {
            let service = if at < 6 { "before" } else { "after" }.to_owned();
            columns.add(Identity { service, ..Identity::default() }, profile);
        }
        let side = |name: &str| Selection { service: Some(name.into()), ..Selection::default() };
        let [base, new] = ["before", "after"].map(side);
        let weights = Weights::default();
        let sides = [&base, &new].map(|selection| changes::Side { selection, weights: &weights });
        changes::told(&columns, sides, false)
    };
    let has_found = |told: &serde_json::Value| {
        told["rows"].as_array().unwrap().iter().any(|row| row["is_significant"] == true)
    };
    let now = told(&profiles);
    assert_eq!((&now["base"]["files"], &now["new"]["files"]), (&2.into(), &2.into()));
    assert!(has_found(&now) && now["needs_runs"] == false, "{now}");
    // Of wall time, which is measured, one run a side says nothing.
    let one_each = columns(&[profiles[0].clone(), profiles[6].clone()]);
    for (value, needs_runs) in [(Value::Wall, true), (Value::Cpu, false)] {
        let side = |source| Selection { value, source: Some(source), ..Selection::default() };
        let ([base, new], weights) = ([side(0), side(1)], Weights::default());
        let sides = [&base, &new].map(|selection| changes::Side { selection, weights: &weights });
        assert_eq!(changes::told(&one_each, sides, false)["needs_runs"], needs_runs, "{value:?}");
    }
    // Without the word each file is one; then the starts would hide it.
    profiles.iter_mut().for_each(|profile| profile.report = None);
    let apart = told(&profiles);
    assert_eq!(apart["base"]["files"], 6);
    assert!(!has_found(&apart), "{apart}");
}

/// Requests that ended, and samples that don't say which they were of: that is not nothing.
#[test]
fn what_no_sample_could_tell_is_unknown() {
    let mut silent = made(5, 100);
    silent.samples.iter_mut().for_each(|sample| sample.span = None);
    silent.spans.clear();
    let rows = |profile: &Profile| {
        let columns = columns(std::slice::from_ref(profile));
        let selection = Selection::default();
        let told = requests::told(&columns, &selection, &Weights::new(&columns, None));
        told["endpoints"].as_array().unwrap().clone()
    };
    let is_endpoint = |row: &&serde_json::Value| row["requests"].as_f64().unwrap() > 0.0;
    let unknown = rows(&silent);
    assert!(unknown.iter().any(|row| is_endpoint(&row)));
    for row in &unknown {
        assert_eq!(row["cpu_ns"].is_null(), is_endpoint(&row), "{row}");
        assert_eq!(row["wall_ns"].is_null(), is_endpoint(&row), "{row}");
    }
    let known = rows(&made(5, 100));
    assert!(known.iter().all(|row| row["cpu_ns"].is_number() && row["wall_ns"].is_number()));
}

/// Whichever of its files is read first.
#[test]
fn a_request_has_its_latest_name() {
    let part = |begin: u64, name: &str| {
        let mut profile = made(6, 100);
        profile.period.start_unix_ns = begin;
        let name = profile.strings.intern(name).unwrap();
        profile.spans.iter_mut().for_each(|span| span.endpoint = name);
        profile
    };
    let parts = [part(1, "GET"), part(2, "GET /counts"), part(3, "")];
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2], [0, 2, 1]] {
        let columns = columns(&order.map(|at| parts[at].clone()));
        let is_known = |row: &usize| columns.rows.request[*row] != 0;
        let name = |row| columns.endpoints.list[columns.endpoint_of(row) as usize].as_str();
        let rows: Vec<usize> = (0..columns.rows.len()).filter(is_known).collect();
        assert!(!rows.is_empty());
        assert!(rows.iter().all(|row| name(*row) == "GET /counts"), "{order:?}");
    }
}
