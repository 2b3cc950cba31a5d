//! Methods that are under all others, or that only wait for work: the runtime's plumbing, which
//! says nothing about a program. Known by the beginnings of their names.

/// Methods that pass work on: thread starts, the pool's loop, tasks and the machinery of `async`.
const PASSING_ON: [&str; 28] = [
    "System.Runtime.CompilerServices.AsyncMethodBuilderCore.",
    "System.Runtime.CompilerServices.AsyncTaskMethodBuilder",
    "System.Runtime.CompilerServices.AsyncValueTaskMethodBuilder",
    "System.Runtime.CompilerServices.AsyncVoidMethodBuilder",
    "System.Runtime.CompilerServices.PoolingAsyncValueTaskMethodBuilder",
    "System.Runtime.CompilerServices.ConfiguredTaskAwaitable",
    "System.Runtime.CompilerServices.TaskAwaiter",
    "System.Runtime.CompilerServices.ValueTaskAwaiter",
    "System.Threading.ExecutionContext.",
    "System.Threading.PortableThreadPool.",
    "System.Threading.QueueUserWorkItemCallback",
    "System.Threading.Tasks.AwaitTaskContinuation.",
    "System.Threading.Tasks.ContinuationTaskFromTask",
    "System.Threading.Tasks.ContinuationTaskFromResultTask",
    "System.Threading.Tasks.SynchronizationContextAwaitTaskContinuation.",
    "System.Threading.Tasks.Sources.ManualResetValueTaskSourceCore",
    "System.Threading.Tasks.Task.Execute",
    "System.Threading.Tasks.Task.Finish",
    "System.Threading.Tasks.Task.InnerInvoke",
    "System.Threading.Tasks.Task.RunContinuations",
    "System.Threading.Tasks.Task.TrySetResult",
    "System.Threading.Tasks.Task<",
    "System.Threading.Tasks.TaskScheduler.",
    "System.Threading.Tasks.ThreadPoolTaskScheduler.",
    "System.Threading.Thread.StartCallback",
    "System.Threading.Thread.StartHelper.",
    // Before .NET 5.
    "System.Threading.ThreadHelper.",
    "System.Threading.ThreadPoolWorkQueue.",
];

/// Methods in which a thread waits for work, when it waits: the pool's workers and its helpers,
/// the threads behind sockets, timers and file watchers, a console logger's queue.
const WAITING_FOR_WORK: [&str; 13] = [
    "Interop.Sys.WaitForSocketEvents(",
    "Microsoft.AspNetCore.Server.Kestrel.Core.Internal.Infrastructure.Heartbeat.TimerLoop(",
    "Microsoft.Extensions.Logging.Console.ConsoleLoggerProcessor.",
    "System.IO.FileSystemWatcher.RunningInstance.",
    "System.Net.Sockets.SocketAsyncEngine.EventLoop(",
    "System.Threading.LowLevelLifoSemaphore.Wait",
    "System.Threading.PortableThreadPool.GateThread.",
    "System.Threading.PortableThreadPool.IOCompletionPoller.",
    "System.Threading.PortableThreadPool.WaitThread.",
    "System.Threading.PortableThreadPool.WorkerThread.WaitForSignal",
    "System.Threading.TimerQueue.TimerThread(",
    "System.Threading.UnmanagedThreadPoolWorkItem.",
    // Native: the sockets' thread is known even where the walk ends here.
    "SystemNative_WaitForSocketEvents",
];

/// Those among them that do nothing else: a pool's thread spins in its wait before it blocks, and
/// that is no work either. The others also run what they have waited for.
const ONLY_WAITING: [&str; 5] = [
    "Interop.Sys.WaitForSocketEvents(",
    "System.Threading.LowLevelLifoSemaphore.Wait",
    "System.Threading.PortableThreadPool.GateThread.",
    "System.Threading.PortableThreadPool.WorkerThread.WaitForSignal",
    "SystemNative_WaitForSocketEvents",
];

/// How each thread begins, and the main one: known by name where the C library has its symbols.
const BEGINNINGS: [&str; 7] = [
    "__clone",
    "__libc_start_call_main",
    "__libc_start_main",
    "_start",
    "clone",
    "clone3",
    "start_thread",
];

/// Whether a native function is under all that a thread does.
pub fn begins_a_thread(name: &str) -> bool {
    // Its source line may follow.
    let name = name.split(' ').next().unwrap_or(name);
    BEGINNINGS.contains(&name)
}

/// Whether a method only passes work on to others.
pub fn passes_on(name: &str) -> bool {
    begins(name, &PASSING_ON)
}

/// Whether a thread that is blocked below this method waits for work.
pub fn waits_for_work(name: &str) -> bool {
    begins(name, &WAITING_FOR_WORK)
}

/// Whether a thread below this method waits for work, whatever it does: blocked, spinning, or
/// ready to.
pub fn only_waits(name: &str) -> bool {
    begins(name, &ONLY_WAITING)
}

fn begins(name: &str, list: &[&str]) -> bool {
    list.iter().any(|beginning| name.starts_with(beginning))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runtimes_own_methods_are_known_and_the_programs_are_not() {
        for name in [
            "System.Threading.PortableThreadPool.WorkerThread.WorkerThreadStart()",
            "System.Threading.ThreadPoolWorkQueue.Dispatch()",
            "System.Runtime.CompilerServices.AsyncTaskMethodBuilder<TResult>\
             .AsyncStateMachineBox<TStateMachine>.MoveNext(Thread)",
            "System.Threading.ExecutionContext.RunInternal(ExecutionContext, object)",
            "System.Threading.Tasks.Task.ExecuteWithThreadLocal(ref Task, Thread)",
        ] {
            assert!(passes_on(name), "{name}");
        }
        for name in [
            "Shop.Program.Main(string[])",
            "System.Threading.Tasks.Parallel.For(int, int, Action<int>)",
            "System.Threading.Monitor.Wait(object, int)",
            "System.Threading.Thread.Sleep(int)",
            "Microsoft.AspNetCore.Hosting.HostingApplication.ProcessRequestAsync(Context)",
        ] {
            assert!(!passes_on(name), "{name}");
            assert!(!waits_for_work(name), "{name}");
        }
        assert!(waits_for_work("System.Threading.LowLevelLifoSemaphore.Wait(int, bool)"));
        assert!(waits_for_work("System.Threading.TimerQueue.TimerThread()"));
        assert!(only_waits("System.Threading.LowLevelLifoSemaphore.WaitForSignal(int)"));
        assert!(!only_waits("System.Threading.LowLevelLifoSemaphore.Release(int)"));
        assert!(!waits_for_work("System.Threading.LowLevelLifoSemaphore.Release(int)"));
        assert!(begins_a_thread("clone3") && begins_a_thread("start_thread pthread_create.c:442"));
        assert!(!begins_a_thread("start_thread_pool") && !begins_a_thread(""));
        assert!(ONLY_WAITING.iter().all(|name| waits_for_work(name)));
    }
}
