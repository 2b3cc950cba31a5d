//! What is known of code: runs that come, overlap and go.

use super::*;
use crate::runtime::IlStep;

const NONE: Option<ModuleKey> = None;

impl Note for u32 {
    fn bytes(&self) -> usize {
        1000
    }
}

/// Code in memory that stays: methods are read from where they lie.
fn code(bytes: &[u8]) -> (u64, u64) {
    let bytes = bytes.to_vec().leak();
    let start = bytes.as_ptr() as u64;
    (start, start + bytes.len() as u64)
}

fn insert(methods: &mut Methods<u32>, start: u64, end: u64, module: usize, note: u32) -> bool {
    let steps = vec![(0, Rule::ENTRY), (4, Rule::FRAME)];
    let module = Some(ModuleKey(module));
    let il = IlMap::of_run(start..end, &[IlStep { address: start, il: Some(7) }]);
    let seen = methods.period;
    methods.insert(start, Known { end, module, funclets: end, steps, il, note, seen })
}

/// The runs, as first address, one past the last, and note.
fn runs(methods: &Methods<u32>) -> Vec<(u64, u64, u32)> {
    methods.runs.iter().map(|(start, known)| (*start, known.end, known.note)).collect()
}

/// What is kept is counted, and no more.
#[track_caller]
fn counted(methods: &Methods<u32>) {
    let sum = |of: fn(&Known<u32>) -> usize| methods.runs.values().map(of).sum::<usize>();
    assert_eq!(methods.il_bytes, sum(|known| known.il.bytes()));
    assert_eq!(methods.bytes(), sum(Known::bytes));
    assert!(methods.bytes() >= 1000 * methods.runs.len(), "each has its note");
}

/// Two runs one after the other, and then a third: what is left.
#[track_caller]
fn check(third: (u64, u64), replaces: bool, left: &[(u64, u64, u32)]) {
    let mut methods = Methods::default();
    assert!(!insert(&mut methods, 100, 200, 1, 1));
    assert!(!insert(&mut methods, 200, 300, 1, 2));
    assert_eq!(insert(&mut methods, third.0, third.1, 2, 3), replaces, "{third:?}");
    assert_eq!(runs(&methods), left, "{third:?}");
    counted(&methods);
    // A table of them is sorted and has no overlaps, which the handler's search relies on.
    let table = methods.table();
    assert!(table.regions.is_sorted_by(|a, b| a.end <= b.start));
    assert_eq!(table.rules.len(), 2, "each distinct rule once");
}

#[test]
fn new_code_replaces_what_it_overlaps() {
    let (one, two) = ((100, 200, 1), (200, 300, 2));
    check((300, 400), false, &[one, two, (300, 400, 3)]);
    check((50, 100), false, &[(50, 100, 3), one, two]);
    check((100, 200), true, &[(100, 200, 3), two]);
    check((120, 130), true, &[(120, 130, 3), two]);
    check((150, 250), true, &[(150, 250, 3)]);
    check((0, 1000), true, &[(0, 1000, 3)]);
    check((199, 200), true, &[(199, 200, 3), two]);
    check((299, u64::MAX), true, &[one, (299, u64::MAX, 3)]);
    // Runs of nothing, or the wrong way round.
    check((150, 150), false, &[one, two]);
    check((250, 150), false, &[one, two]);
}

#[test]
fn addresses_find_their_run() {
    let mut methods = Methods::default();
    insert(&mut methods, 100, 200, 1, 1);
    insert(&mut methods, 300, 400, 1, 2);
    for (address, expected) in
        [(0, None), (99, None), (100, Some(1)), (199, Some(1)), (200, None), (399, Some(2))]
    {
        assert_eq!(methods.at(address).map(|(_, known)| known.note), expected, "{address}");
    }
}

#[test]
fn a_modules_code_is_forgotten() {
    let mut methods = Methods::default();
    insert(&mut methods, 100, 200, 1, 1);
    insert(&mut methods, 200, 300, 2, 2);
    methods.learn_stub(1000, &3);
    assert!(methods.table_if_changed(false).is_some());
    assert!(!methods.forget(ModuleKey(3)));
    assert!(methods.table_if_changed(false).is_none(), "nothing changed");
    assert!(methods.forget(ModuleKey(1)));
    assert!(!methods.forget(ModuleKey(1)));
    assert_eq!(runs(&methods), [(200, 300, 2), (960, 1024, 3)]);
    counted(&methods);
    assert_eq!(methods.table_if_changed(false).map(|table| table.regions.len()), Some(2));
    assert!(methods.table_if_changed(true).is_some());
    // Learned again under the same number.
    insert(&mut methods, 100, 200, 1, 4);
    assert!(methods.forget(ModuleKey(1)));
}

#[test]
fn a_stub_is_asked_for_anew() {
    let mut methods = Methods::default();
    insert(&mut methods, 100, 200, 1, 1);
    methods.learn_stub(1000, &3);
    assert!(methods.table_if_changed(false).is_some());
    assert!(methods.forget_stubs());
    assert_eq!(runs(&methods), [(100, 200, 1)]);
    counted(&methods);
    assert!(methods.table_if_changed(false).is_some());
    assert!(!methods.forget_stubs());
    assert!(methods.table_if_changed(false).is_none(), "nothing changed");
}

/// A stub at an address among runs at 100 to 200 and 230 to 300: its limits.
#[track_caller]
fn check_stub(address: u64, expected: (u64, u64)) {
    let mut methods = Methods::default();
    insert(&mut methods, 100, 200, 1, 1);
    insert(&mut methods, 230, 300, 1, 2);
    methods.learn_stub(address, &3);
    let (start, known) = methods.at(address).expect("learned");
    assert_eq!((start, known.end), expected);
    assert_eq!((known.module, known.steps.as_slice()), (NONE, &[(0, Rule::ENTRY)][..]));
    assert_eq!(methods.runs.len(), 3, "methods stay");
}

#[test]
fn stubs_keep_away_from_methods() {
    check_stub(64, (64, 100));
    check_stub(99, (64, 100));
    check_stub(200, (200, 230));
    check_stub(229, (200, 230));
    check_stub(300, (300, 320));
    check_stub(1000, (960, 1024));
    check_stub(0, (0, 64));
    check_stub(u64::MAX - 1, (u64::MAX - 63, u64::MAX));
}

#[test]
fn a_small_table_holds_what_a_stack_needs() {
    let mut methods = Methods::default();
    for n in 0..100 {
        insert(&mut methods, n * 100, n * 100 + 90, 1, n as u32);
    }
    let table = methods.small_table(&[505, 95, 9_000_000, 510, 0, 305]);
    let starts: Vec<u64> = table.regions.iter().map(|region| region.start).collect();
    assert_eq!(starts, [0, 300, 500]);
    let whole = methods.table();
    for address in (0..600).step_by(5) {
        let expected = if [0, 3, 5].contains(&(address / 100)) {
            whole.view().find(address)
        } else {
            signal::table::Found::Outside
        };
        assert_eq!(table.view().find(address), expected, "{address}");
    }
    assert!(methods.small_table(&[]).regions.is_empty());
}

#[test]
fn code_is_read_where_it_lies() {
    // push rbp; mov rbp, rsp; pop rbp; ret; and a handler: push rbp; sub rsp, 16; add rsp, 16;
    // pop rbp; ret
    let body = [0x55, 0x48, 0x8b, 0xec, 0x5d, 0xc3];
    let handler = [0x55, 0x48, 0x83, 0xec, 0x10, 0x48, 0x83, 0xc4, 0x10, 0x5d, 0xc3];
    let (start, end) = code(&[&body[..], &handler].concat());
    let learn = |ranges: Vec<(u64, u64)>| -> Methods<u32> {
        let mut methods = Methods::default();
        let (module, siblings, il) = (ModuleKey(1), vec![], vec![]);
        let code = Code { module, start, ranges, siblings, il };
        assert!(!methods.learn(&code, &0));
        methods
    };
    let methods = learn(vec![(start, end)]);
    let (_, known) = methods.at(start).expect("learned");
    assert_eq!(known.funclets, start + body.len() as u64);
    assert_eq!(known.steps[0], (0, Rule::ENTRY));
    // Without a handler, none of its addresses is one's.
    let plain = learn(vec![(start, start + 6)]);
    assert_eq!(plain.at(start).map(|(_, known)| known.funclets), Some(start + 6));
    // Code that is gone by now, and ranges that make no sense.
    let gone = learn(vec![(0x10, 0x20), (u64::MAX - 10, u64::MAX), (9, 8), (end, end)]);
    assert_eq!(gone.runs.len(), 2);
    assert!(gone.bytes() >= 512);
}

/// A program that compiles without an end takes no memory without an end.
#[test]
fn too_much_code_is_learned_anew() {
    let mut methods = Methods::default();
    for number in 0..CODE_RUNS_MAX as u64 {
        assert!(!methods.learn_stub(number * STUB_BYTES, &1), "{number}");
    }
    let full = methods.bytes();
    assert_eq!(methods.runs.len(), CODE_RUNS_MAX);
    assert!(methods.learn_stub(u64::MAX / 2, &2), "what was known is to be forgotten");
    assert_eq!(methods.runs.len(), 1);
    counted(&methods);
    assert!(methods.bytes() < full / 1000 && methods.table_if_changed(false).is_some());
}

/// What is still in use stays, and what was seen some periods ago goes, as soon as there is much.
#[test]
fn code_that_no_stack_has_any_more_is_forgotten() {
    const RUNS: u64 = CODE_BYTES_KEPT as u64 / 1000;
    let mut methods = Methods::default();
    insert(&mut methods, 10, 20, 1, 1);
    assert!(!methods.end_period() && methods.see(10).is_some(), "this is little");
    for number in 1..=RUNS {
        insert(&mut methods, number * 100, number * 100 + 50, 2, 2);
    }
    assert!(methods.table_if_changed(false).is_some());
    for period in 0..CODE_KEPT_PERIODS {
        assert!(methods.end_period(), "{period}");
        // An address behind a run is none of its own.
        assert!(methods.see(15).is_some() && methods.see(160).is_none());
        assert_eq!(methods.runs.len() as u64, RUNS + 1, "{period}");
    }
    assert!(methods.table_if_changed(false).is_none(), "nothing has changed");
    assert!(methods.end_period());
    assert_eq!(runs(&methods), [(10, 20, 1)]);
    assert!(methods.table_if_changed(false).is_some());
    counted(&methods);
    assert!(!methods.end_period() && !methods.forget(ModuleKey(2)) && methods.forget(ModuleKey(1)));
    assert_eq!(methods.bytes(), 0);
}
