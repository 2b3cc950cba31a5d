using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.IO;
using System.IO.MemoryMappedFiles;
using System.Runtime.CompilerServices;
using System.Threading;

namespace Corprof.TestApps;

/// <summary>
/// Work without end, counted where another process can read it: --work KIND by --threads N, each
/// --depth N calls deep, beside --idle N threads that wait. It stands still while the first byte of
/// --counters FILE is not 0, and ends with its input.
/// </summary>
static unsafe class Cost
{
    // Each thread's count is alone in its cache line; the first line has the switch.
    const int LineBytes = 64;

    const int PauseMillis = 5;
    const int IdleStackBytes = 128 << 10;

    static byte* lines;

    static void Main(string[] words)
    {
        var arguments = new Arguments(words);
        var threads = arguments.Int("threads", 2);
        using var file = MemoryMappedFile.CreateFromFile(
            arguments.Text("counters"), FileMode.Open, null, LineBytes * (threads + 1));
        using var view = file.CreateViewAccessor();
        view.SafeMemoryMappedViewHandle.AcquirePointer(ref lines);

        Wait(arguments.Int("idle", 0));
        var kind = arguments.Text("work");
        var depth = arguments.Int("depth", 1);
        for (var i = 0; i < threads; i++)
        {
            var number = i;
            // Deep stacks of managed frames of 100 bytes or so.
            var thread = new Thread(() => Descend(depth, kind, number), 16 << 20);
            thread.Name = kind + "-" + i;
            thread.IsBackground = true;
            thread.Start();
        }
        Console.WriteLine("WORKING");
        Console.In.ReadToEnd();
        Environment.Exit(0);
    }

    static void Wait(int threads)
    {
        var never = new ManualResetEventSlim();
        using var started = new CountdownEvent(Math.Max(threads, 1));
        for (var i = 0; i < threads; i++)
        {
            var thread = new Thread(
                () =>
                {
                    started.Signal();
                    never.WaitHandle.WaitOne();
                },
                IdleStackBytes);
            thread.IsBackground = true;
            thread.Start();
        }
        if (threads > 0)
            started.Wait();
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static long Descend(int depth, string kind, int number) =>
        depth > 1 ? Descend(depth - 1, kind, number) + 1 : Labour(Job.Of(kind, number), number);

    static long Labour(Job job, int number)
    {
        var count = (long*)(lines + LineBytes * (number + 1));
        long done = 0;
        while (true)
        {
            if (Volatile.Read(ref *lines) != 0)
            {
                job.Rest();
                while (Volatile.Read(ref *lines) != 0)
                    Thread.Sleep(PauseMillis);
            }
            job.Operate(done);
            done++;
            Volatile.Write(ref *count, done);
        }
    }
}

/// <summary>What a thread does again and again: some 20 to 100 µs each time.</summary>
abstract class Job
{
    public static Job Of(string kind, int number) => kind switch
    {
        "cpu" => new Requests(number),
        "allocations" => new Allocations(),
        "locks" => new Locks(),
        "exceptions" => new Exceptions(),
        "deep" => new Multiplications(),
        _ => throw new ArgumentException(kind),
    };

    /// <summary>One operation.</summary>
    public abstract void Operate(long number);

    /// <summary>Before it stands still.</summary>
    public virtual void Rest()
    {
    }
}

/// <summary>The same computation each time.</summary>
sealed class Multiplications : Job
{
    public override void Operate(long number) => Work.Multiply(30_000);
}

/// <summary>Computations of four kinds; twenty of them are a request, with an activity.</summary>
sealed class Requests : Job
{
    const int OperationsEach = 20;
    const int Keys = 1_000;

    readonly Dictionary<int, int> counts = new();
    readonly int[] numbers = new int[1_000];
    readonly char[] text = new char[2_000];
    readonly int first;
    Activity activity;

    public Requests(int first) => this.first = first;

    public override void Operate(long number)
    {
        if (number % OperationsEach == 0)
        {
            activity?.Stop();
            activity = new Activity("job").Start();
        }
        switch ((number + first) % 4)
        {
            case 0:
                Work.Multiply(30_000);
                break;
            case 1:
                Look((int)number);
                break;
            case 2:
                Sort((int)number);
                break;
            default:
                Format(number);
                break;
        }
    }

    public override void Rest()
    {
        activity?.Stop();
        activity = null;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    void Look(int key)
    {
        for (var i = 0; i < 2_000; i++)
        {
            key = (key * 31 + i) & 0x7fffffff;
            counts.TryGetValue(key % Keys, out var count);
            counts[key % Keys] = count + 1;
        }
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    void Sort(int seed)
    {
        for (var i = 0; i < numbers.Length; i++)
        {
            seed = seed * 1103515245 + 12345;
            numbers[i] = seed;
        }
        Array.Sort(numbers);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    void Format(long number)
    {
        var length = 0;
        for (var i = 0; i < 100; i++)
        {
            (number + i).TryFormat(text.AsSpan(length), out var written);
            length += written;
        }
        text.AsSpan(0, length).Reverse();
    }
}

/// <summary>Objects of many sizes, some of which live on for a while.</summary>
sealed class Allocations : Job
{
    readonly object[] kept = new object[50_000];

    public override void Operate(long number)
    {
        for (var i = 0; i < 200; i++)
        {
            var made = new byte[16 + (number * 7 + i * 31) % 500];
            if (i % 10 == 0)
                kept[(number * 20 + i / 10) % kept.Length] = made;
        }
        kept[number % kept.Length] = "item " + number;
    }
}

/// <summary>One lock for all threads, held for a third of the time.</summary>
sealed class Locks : Job
{
    static readonly object Gate = new();
    static long shared;

    public override void Operate(long number)
    {
        for (var i = 0; i < 20; i++)
        {
            lock (Gate)
                shared += Work.Multiply(300);
            Work.Multiply(600);
        }
    }
}

/// <summary>An exception that is caught ten calls up.</summary>
sealed class Exceptions : Job
{
    public override void Operate(long number)
    {
        try
        {
            Sink(10);
        }
        catch (InvalidOperationException)
        {
        }
        Work.Multiply(5_000);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static int Sink(int depth) =>
        depth > 0 ? Sink(depth - 1) + 1 : throw new InvalidOperationException("on purpose");
}
