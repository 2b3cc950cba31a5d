//! The tables that handlers see now, and the older ones until no handler can see them any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use signal::cache::{Cache, ENTRIES};
use signal::handler::Shared;
use signal::tables::Tables;
use unwind::native::NativeTable;

use crate::methods::MethodTable;

/// A published pair of tables, with what it borrows from. It stands still in its box.
struct Published {
    tables: Tables<'static>,
    _native: Arc<NativeTable>,
    _methods: Arc<MethodTable>,
    _cache: Vec<AtomicU64>,
}

/// Publishes tables; owns what is published.
pub struct Publisher {
    shared: &'static Shared,
    current: Option<Box<Published>>,
    /// Unpublished, and perhaps still seen by a handler that entered the gate before.
    #[expect(clippy::vec_box, reason = "handlers point into the box: it must not move")]
    retired: Vec<Box<Published>>,
}

impl Publisher {
    /// A publisher for the handlers' state; there must be one only.
    #[must_use]
    pub fn new(shared: &'static Shared) -> Self {
        Self { shared, current: None, retired: Vec::new() }
    }

    /// Makes these the tables that handlers see.
    pub fn publish(
        &mut self,
        native: Arc<NativeTable>,
        methods: Arc<MethodTable>,
        hijack: Option<u64>,
    ) {
        let hijack = hijack.unwrap_or(0);
        let entries: Vec<AtomicU64> = (0..ENTRIES).map(|_| AtomicU64::new(0)).collect();
        let cache = Cache { entries: &entries };
        let view = Tables { native: native.view(), managed: methods.view(), hijack, cache };
        // SAFETY: the view borrows from the contents of the two Arcs and of the Vec, which don't
        // move and live as long as the box that holds them; the box is freed only when no handler
        // can see it.
        let tables = unsafe { std::mem::transmute::<Tables<'_>, Tables<'static>>(view) };
        let new =
            Box::new(Published { tables, _native: native, _methods: methods, _cache: entries });
        let place = std::ptr::from_ref(&new.tables).cast_mut();
        self.shared.tables.store(place, Ordering::SeqCst);
        self.retired.extend(self.current.replace(new));
        self.free();
    }

    /// What handlers see now.
    #[must_use]
    pub fn current(&self) -> Tables<'_> {
        self.current.as_ref().map(|published| published.tables).unwrap_or_default()
    }

    /// Frees what no handler can see: everything retired, at an instant when none is inside. Under
    /// constant load such an instant comes within a few calls: handlers run for microseconds.
    pub fn free(&mut self) {
        if self.shared.gate.inside() == 0 {
            self.retired.clear();
        }
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        self.shared.tables.store(std::ptr::null_mut(), Ordering::SeqCst);
        self.retired.extend(self.current.take());
        self.free();
        // What a handler may still see is left behind on purpose.
        self.retired.drain(..).for_each(std::mem::forget);
    }
}
