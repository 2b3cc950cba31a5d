//! Places that time is charged to, and whose it is.

use std::sync::Arc;

use model::{EndReason, ThreadClass, ThreadState};
use profile::{StackId, ThreadKey};
use signal::context::SpanContext;

use crate::gc_waits::GcWaits;

/// A stack as it was walked, kept so that it can be interned again.
#[derive(Clone, Debug)]
pub(super) struct Walked {
    pub(super) frames: Arc<Vec<u64>>,
    pub(super) gap: Option<usize>,
    pub(super) end: EndReason,
    /// Of its thread.
    pub(super) class: ThreadClass,
}

/// A stack that time is charged to.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) walked: Walked,
    /// Its id; `None` after the aggregate's tables were emptied.
    pub(super) id: Option<StackId>,
    pub(super) state: ThreadState,
    /// Where in the runtime's code a managed thread waits there, and for what it seemed to.
    pub(super) in_runtime: Option<(u64, ThreadState)>,
    /// Which request the thread worked for.
    pub(super) context: SpanContext,
}

impl Place {
    /// The thread waits there for something else than the end of a pause.
    pub(super) fn outlasted(&mut self, waits: &mut GcWaits) {
        if let Some((place, seemed)) = self.in_runtime {
            waits.outlasted(place);
            self.state = seemed;
        }
    }
}

/// Who is charged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Payer {
    pub(super) thread: ThreadKey,
    pub(super) context: SpanContext,
}

impl Payer {
    /// A thread that worked for no request, as far as is known.
    pub(super) fn only(thread: ThreadKey) -> Self {
        Self { thread, context: SpanContext::default() }
    }
}
