//! The runtime's callbacks, handed on to the engine; and how it all starts and stops.

use std::time::Duration;

use clr::{Events, FunctionId, HResult, Info, ModuleId, SuspendReason, ThreadId};
use config::control::{Command, Request};
use engine::{Event, ManagedId, ModuleKey, PauseReason, Pauses, Profiler};

use crate::control::Control;
use crate::session::Session;

/// The one agent of this process.
pub static AGENT: Agent = Agent { session: Session::new(), control: Control::new() };

/// What listens to the runtime.
pub struct Agent {
    session: Session,
    control: Control,
}

impl Agent {
    /// Whether it profiles, and how.
    pub fn session(&self) -> &Session {
        &self.session
    }

    fn profiler(&self) -> Option<&Profiler> {
        self.session.profiler()
    }

    fn pauses(&self) -> Option<&Pauses> {
        self.profiler().map(Profiler::pauses)
    }
}

impl Events for Agent {
    fn initialize(&'static self, info: Info) -> Result<(), HResult> {
        let config = self.session.load(info).ok_or(HResult::CANCEL_ACTIVATION)?;
        self.listen(config.control, None);
        Ok(())
    }

    fn attach(&'static self, info: Info, data: &[u8]) -> Result<(), HResult> {
        match Request::parse(&String::from_utf8_lossy(data)) {
            Ok(Request { command: Command::Attach(leave_after), settings }) => {
                let config = self.session.attach(info, &settings);
                let config = config.ok_or(HResult::CANCEL_ACTIVATION)?;
                // Listens before it begins: whoever attaches looks for the socket.
                self.listen(config.control, leave_after);
                Ok(())
            }
            // A command line of another version; it will say so.
            _ => Err(HResult::CANCEL_ACTIVATION),
        }
    }

    fn attached(&'static self) {
        if let (Err(reason), Some(log)) = (self.session.begin(), self.session.log()) {
            log.error(&format!("not profiling: {reason}. The profiler leaves again."));
            self.listen(false, Some(Duration::ZERO));
        }
    }

    fn detached(&self) {
        self.session.left();
    }

    fn shutdown(&self) {
        self.control.close();
        if let Some(profiler) = self.profiler() {
            profiler.stop();
        }
    }

    fn thread_created(&self, thread: ThreadId) {
        let (Some(profiler), Some(clr)) = (self.profiler(), self.session.clr()) else { return };
        let id = ManagedId(thread.0);
        profiler.registry().created(id);
        if let Some(tid) = clr.info().thread_tid(thread) {
            profiler.registry().assigned(id, tid);
        }
    }

    fn thread_assigned(&self, thread: ThreadId, tid: u32) {
        if let Some(profiler) = self.profiler() {
            profiler.registry().assigned(ManagedId(thread.0), tid);
        }
    }

    fn thread_destroyed(&self, thread: ThreadId) {
        if let Some(profiler) = self.profiler() {
            profiler.registry().destroyed(ManagedId(thread.0));
        }
    }

    fn thread_named(&self, thread: ThreadId, name: String) {
        if let Some(profiler) = self.profiler() {
            profiler.registry().named(ManagedId(thread.0), name);
        }
    }

    fn module_unloading(&self, module: ModuleId) {
        let (Some(profiler), Some(clr)) = (self.profiler(), self.session.clr()) else { return };
        clr.unloading(module);
        profiler.inbox().post(Event::Unloaded { module: ModuleKey(module.0) });
    }

    fn dynamic_method_unloaded(&self, function: FunctionId) {
        let (Some(profiler), Some(clr)) = (self.profiler(), self.session.clr()) else { return };
        drop(clr.wait_for_look_up());
        profiler.inbox().post(Event::Unloaded { module: ModuleKey(function.0) });
    }

    fn suspending(&self, reason: SuspendReason) {
        if let Some(clr) = self.session.clr() {
            clr.suspending(reason);
        }
        if let Some(pauses) = self.pauses() {
            pauses.suspending(pause_reason(reason));
        }
    }

    fn resuming(&self) {
        if let Some(clr) = self.session.clr() {
            clr.resuming();
        }
        if let Some(pauses) = self.pauses() {
            pauses.resuming();
        }
    }

    fn resumed(&self) {
        if let Some(pauses) = self.pauses() {
            pauses.resumed();
        }
    }

    fn thread_suspended(&self) {
        if let Some(pauses) = self.pauses() {
            pauses.thread_suspended();
        }
    }

    fn thread_resumed(&self) {
        if let Some(pauses) = self.pauses() {
            pauses.thread_resumed();
        }
    }

    fn collection_started(&self, generation: u8, induced: bool) {
        if let Some(pauses) = self.pauses() {
            pauses.collection_started(generation, induced);
        }
    }

    fn collection_finished(&self) {
        if let Some(pauses) = self.pauses() {
            pauses.collection_finished();
        }
    }

    fn panicked(&self) {
        if let Some(profiler) = self.profiler() {
            profiler.panicked();
        }
    }
}

impl Agent {
    fn listen(&'static self, is_wanted: bool, leave_after: Option<Duration>) {
        if let Some(log) = self.session.log() {
            self.control.open(&self.session, is_wanted, leave_after, &log);
        }
    }
}

fn pause_reason(reason: SuspendReason) -> PauseReason {
    match reason {
        SuspendReason::Other | SuspendReason::Unloading => PauseReason::Other,
        SuspendReason::Gc => PauseReason::Gc,
        SuspendReason::GcPreparation => PauseReason::GcPreparation,
        SuspendReason::ReJit => PauseReason::ReJit,
        SuspendReason::Profiler => PauseReason::Profiler,
        SuspendReason::Debugger => PauseReason::Debugger,
        SuspendReason::Shutdown => PauseReason::Shutdown,
    }
}
