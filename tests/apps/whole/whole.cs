using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Linq;
using System.Threading;

namespace Corprof.TestApps;

/// <summary>
/// A process whose time goes to threads of all kinds: --seconds N, --threads N, and one of --busy,
/// --gc, --jit (with --pace N), --exceptions, --exceptions-and-gc, --rest, --native LIBRARY (with
/// --short N or --idle N), --calls LIBRARY. Tells what the kernel counted for the process, and for
/// each thread by its name.
/// </summary>
static class Whole
{
    const int MillisToEnd = 700;

    static void Main(string[] words)
    {
        var arguments = new Arguments(words);
        var seconds = arguments.Double("seconds", 4);
        var calls = arguments.Has("calls") ? new NativeCalls(arguments.Text("calls")) : null;
        Action<Func<bool>> work =
            calls != null ? calls.Call
            : arguments.Has("busy") ? Compute
            : arguments.Has("gc") ? Garbage.Allocate
            : arguments.Has("jit")
                ? continues => Compilation.Compile(continues, arguments.Int("pace", 0))
            : arguments.Has("exceptions-and-gc") ? Mixed()
            : arguments.Has("exceptions") ? Throwing.Throw
            : arguments.Has("rest") ? continues => Thread.Sleep(TimeSpan.FromSeconds(seconds))
            : continues => { };
        var watch = Stopwatch.StartNew();
        bool Continues() => watch.Elapsed.TotalSeconds < seconds;
        var truth = new Truth().Add("process_cpu_begin_ns", Kernel.ProcessUsage);
        var threads = new List<Thread>();
        for (var i = 0; i < arguments.Int("threads", 2); i++)
            threads.Add(new Thread(() => work(Continues)) { Name = "work-" + i });
        threads.ForEach(thread => thread.Start());
        if (arguments.Has("native"))
        {
            var path = arguments.Text("native");
            var (function, count) = arguments.Has("idle")
                ? ("idle", arguments.Int("idle", 0))
                : ("burn", arguments.Int("short", 0));
            NativeWork.Run(path, function, seconds, count, truth);
        }
        calls?.CallOnThread(seconds / 2, truth);
        threads.ForEach(thread => thread.Join());
        calls?.Tell(truth);
        // Threads that work in the background, such as the JIT's, are to be idle at the end: what
        // is told is then what there was.
        Thread.Sleep(MillisToEnd);
        var all = Kernel.Threads().Select(thread =>
            new Truth()
                .Add("tid", thread.Id)
                .Add("name", thread.Name)
                .Add("cpu_ns", Kernel.CpuOf(thread.Id))).ToList();
        truth.Add("threads", all).Add("process_cpu_end_ns", Kernel.ProcessUsage).Tell();
    }

    /// <summary>Work that is another on each second thread.</summary>
    static Action<Func<bool>> Mixed()
    {
        var next = 0;
        return continues =>
        {
            if (Interlocked.Increment(ref next) % 2 == 0)
                Throwing.Throw(continues);
            else
                Garbage.Allocate(continues);
        };
    }

    static void Compute(Func<bool> continues)
    {
        while (continues())
            Work.Multiply(20_000);
    }
}
