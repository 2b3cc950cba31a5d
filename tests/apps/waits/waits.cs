using System;
using System.Collections.Concurrent;
using System.Diagnostics;
using System.Runtime.CompilerServices;
using System.Threading;
using System.Threading.Tasks;

namespace Corprof.TestApps;

/// <summary>Threads that wait in every usual way, over and over: --seconds N, --copies N.</summary>
static class Waits
{
    const int PauseMillis = 40;

    static readonly SemaphoreSlim Permits = new(1);
    static readonly ManualResetEventSlim Signal = new();
    static readonly AutoResetEvent KernelSignal = new(false);
    static readonly BlockingCollection<int> Queue = new(4);
    static readonly object Room = new();
    static readonly object Door = new();
    static readonly ReaderWriterLockSlim Shelf = new();

    static void Main(string[] words)
    {
        var arguments = new Arguments(words);
        var limit = TimeSpan.FromSeconds(arguments.Double("seconds", 10));
        (string, Action)[] ways =
        {
            ("sleep", Sleep),
            ("semaphore", WaitForPermit),
            ("task-wait", WaitForTask),
            ("monitor-wait", WaitInRoom),
            ("monitor-enter", EnterDoor),
            ("take", Take),
            ("join", Join),
            ("async-delay", Delay),
            ("event-slim", WaitForSignal),
            ("event", WaitForKernelSignal),
            ("reader-writer", WriteShelf),
        };
        var crew = new Crew();
        for (var copy = 0; copy < arguments.Int("copies", 2); copy++)
        {
            foreach (var (name, way) in ways)
                crew.Add($"{name}-{copy}", truth => truth.Add("rounds", Repeat(way, limit)));
        }
        crew.Add("waker", truth => truth.Add("rounds", Repeat(WakeAll, limit)));
        crew.Run();
        new Truth().Add("threads", crew.Truths).Tell();
    }

    static long Repeat(Action way, TimeSpan limit)
    {
        var watch = Stopwatch.StartNew();
        long rounds = 0;
        for (; watch.Elapsed < limit; rounds++)
            way();
        return rounds;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void Sleep() => Thread.Sleep(PauseMillis);

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void WaitForPermit()
    {
        Permits.Wait();
        Thread.Sleep(PauseMillis / 2);
        Permits.Release();
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void WaitForTask() => Task.Run(() => Thread.Sleep(PauseMillis)).Wait();

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void WaitInRoom()
    {
        lock (Room)
            Monitor.Wait(Room, PauseMillis * 2);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void EnterDoor()
    {
        lock (Door)
            Thread.Sleep(PauseMillis / 2);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void Take() => Queue.TryTake(out _, PauseMillis * 2);

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void Join()
    {
        var thread = new Thread(() => Thread.Sleep(PauseMillis)) { Name = "joined" };
        thread.Start();
        thread.Join();
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void Delay() => DelayDeeply(5).GetAwaiter().GetResult();

    static async Task<int> DelayDeeply(int depth)
    {
        if (depth > 0)
            return 1 + await DelayDeeply(depth - 1);
        await Task.Delay(PauseMillis);
        return 1;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void WaitForSignal()
    {
        Signal.Wait(PauseMillis * 2);
        Signal.Reset();
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void WaitForKernelSignal() => KernelSignal.WaitOne(PauseMillis * 2);

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void WriteShelf()
    {
        Shelf.EnterWriteLock();
        Thread.Sleep(PauseMillis / 2);
        Shelf.ExitWriteLock();
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void WakeAll()
    {
        Thread.Sleep(PauseMillis);
        lock (Room)
            Monitor.PulseAll(Room);
        Signal.Set();
        KernelSignal.Set();
        Queue.TryAdd(1);
    }
}
