//! What tests have in place of a runtime and of handlers: a table, and state that no handler sees.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use model::Loss;
use signal::handler::Shared;
use signal::record::{Record, ThreadRef};
use signal::ring::{Ring, Slot};
use signal::sample::Sample;

use crate::event::{Event, Inbox};
use crate::runtime::{Assembly, Code, IlStep, MethodName, ModuleKey, Runtime};

/// Where methods of tests lie by default: the kernel maps nothing for a program there.
pub const METHODS: u64 = 0xffff_9000_0000_0000;
/// How far they lie apart.
pub const METHOD_BYTES: u64 = 0x100;

/// A runtime that answers from a table.
#[derive(Default)]
pub struct Table {
    methods: Mutex<Vec<Code>>,
    /// How often it was asked.
    pub asked: AtomicUsize,
}

impl Table {
    /// So many methods from `METHODS` on, of module 1.
    pub fn of(count: u64) -> Self {
        let table = Self::default();
        (0..count).for_each(|n| table.add(1, method(n), method(n) + METHOD_BYTES));
        table
    }

    /// Says which IL the code of the method at an address is of.
    pub fn il(&self, start: u64, il: Vec<IlStep>) {
        let mut methods = self.methods.lock().expect("not poisoned");
        methods
            .iter_mut()
            .filter(|code| code.start == start)
            .for_each(|code| code.il.clone_from(&il));
    }

    /// Adds a method, which gets the name `M<its address>()`.
    pub fn add(&self, module: usize, start: u64, end: u64) {
        let ranges = vec![(start, end)];
        let (module, siblings, il) = (ModuleKey(module), vec![], vec![]);
        let code = Code { module, start, ranges, siblings, il };
        self.methods.lock().expect("not poisoned").push(code);
    }

    /// Takes a module's methods out.
    pub fn unload(&self, module: usize) {
        self.methods.lock().expect("not poisoned").retain(|code| code.module != ModuleKey(module));
    }
}

/// The address of method `n` of `Table::of`.
pub const fn method(n: u64) -> u64 {
    METHODS + n * METHOD_BYTES
}

impl Runtime for Table {
    fn look_up(&self, address: u64) -> Option<(Code, Option<MethodName>)> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let methods = self.methods.lock().expect("not poisoned");
        let holds = |code: &&Code| code.ranges.iter().any(|(s, e)| (*s..*e).contains(&address));
        let code = methods.iter().find(holds)?.clone();
        let display = format!("M{:x}()", code.start);
        let file = format!("{}.dll", code.module.0);
        let assembly = Arc::new(Assembly { file, build_id: "b".to_owned() });
        let name = MethodName { raw: display.clone(), display, assembly, token: 0x0600_0001 };
        Some((code, Some(name)))
    }

    #[cfg(feature = "oracle")]
    fn reported(&self, _address: u64) -> Option<usize> {
        None
    }

    fn version(&self) -> String {
        "Table 1.0".to_owned()
    }
}

/// Handlers' state with so many records and a ring of so many slots.
pub fn shared(records: usize, slots: u64) -> &'static Shared {
    let records: Vec<Record> = (0..records).map(|_| Record::default()).collect();
    let slots: Vec<_> = (0..slots).map(|_| Slot::new(Sample::default())).collect();
    Box::leak(Box::new(Shared::new(records.leak(), &[], Ring::new(slots.leak()))))
}

/// The same, which knows who has which record.
pub fn shared_with_tids(records: usize, slots: u64) -> &'static Shared {
    let by_tid: Vec<AtomicU32> = (0..model::limits::TIDS_MAX).map(|_| AtomicU32::new(0)).collect();
    let shared = shared(records, slots);
    let slots: Vec<_> = (0..slots).map(|_| Slot::new(Sample::default())).collect();
    let ring = Ring::new(slots.leak());
    Box::leak(Box::new(Shared::new(shared.records, by_tid.leak(), ring)))
}

/// How often something was lost.
pub fn lost(shared: &Shared, loss: Loss) -> u64 {
    shared.losses[loss as usize].load(Ordering::Relaxed)
}

/// A thread's name.
pub const fn thread(index: u32, generation: u32) -> ThreadRef {
    ThreadRef { index, generation }
}

/// All events that wait.
pub fn events(inbox: &Inbox) -> Vec<Event> {
    let (events, dropped) = inbox.take(std::time::Duration::ZERO, &mut Vec::new());
    assert_eq!(dropped, 0);
    events.into_iter().map(|timed| timed.event).collect()
}
