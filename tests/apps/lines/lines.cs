using System;
using System.Collections.Generic;
using System.Linq;
using System.Runtime.CompilerServices;
using System.Threading;
using System.Threading.Tasks;

namespace Corprof.TestApps;

/// <summary>
/// Spends CPU time on lines that are known: --seconds N, of CPU time. A line with the comment
/// <c>line: NAME</c> has the time that the truth tells as <c>NAME_ns</c>, in its own code or
/// (<c>call: NAME</c>) in what it calls.
/// </summary>
static class Lines
{
    // In an order and of lengths by chance, and without a pause: else the parts would be in step
    // with the kernel's tick, at which threads are switched and samples are taken.
    const int RoundsMin = 200_000;
    const int RoundsMax = 600_000;

    static readonly Random Chance = new(7);
    static readonly Dictionary<string, long> Nanos = new();
    static readonly string[] Words =
        Enumerable.Range(0, 4000).Select(n => $"word {n * 7919 % 4001}").ToArray();

    static long sink;

    static void Main(string[] words)
    {
        var seconds = new Arguments(words).Double("seconds", 5);
        var truth = new Truth();
        var worker = new Thread(() => Live(seconds)) { Name = "liner" };
        worker.Start();
        worker.Join();
        foreach (var (name, nanos) in Nanos)
            truth.Add(name + "_ns", nanos);
        truth.Tell();
    }

    static void Live(double seconds)
    {
        while (Nanos.Values.Sum() < seconds * 1e9)
        {
            switch (Chance.Next(9))
            {
                case 0: TwoLoops(Rounds); break;
                case 1: Mapped(Rounds); break;
                case 2: Hidden(Rounds); break;
                case 3: Lambda(Rounds); break;
                case 4: Async(Rounds).Wait(); break;
                case 5: Generic(Words, Rounds); break;
                case 6: Handlers(Rounds); break;
                case 7: Calls(Rounds); break;
                default: CallInlined(Rounds); break;
            }
        }
    }

    static int Rounds => Chance.Next(RoundsMin, RoundsMax);

    static void Tell(string name, long nanos)
    {
        Nanos.TryGetValue(name, out var before);
        Nanos[name] = before + nanos;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void TwoLoops(int rounds)
    {
        long x = 1;
        var begin = Kernel.ThreadCpu;
        for (var i = 0; i < 3 * rounds; i++) x = x * 31 + i; // line: three
        var middle = Kernel.ThreadCpu;
        for (var i = 0; i < rounds; i++) x = x * 37 - i; // line: one
        var end = Kernel.ThreadCpu;
        Tell("three", middle - begin);
        Tell("one", end - middle);
        sink += x;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void Mapped(int rounds)
    {
        long x = 2;
        var begin = Kernel.ThreadCpu;
#line 500 "pages/Prices.razor"
        for (var i = 0; i < rounds; i++) x = x * 41 + i;
#line default
        Tell("mapped", Kernel.ThreadCpu - begin);
        sink += x;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void Hidden(int rounds)
    {
        long x = 3;
        var begin = Kernel.ThreadCpu;
#line hidden
        for (var i = 0; i < rounds; i++) x = x * 43 - i;
#line default
        Tell("hidden", Kernel.ThreadCpu - begin);
        sink += x;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void Lambda(int rounds)
    {
        Func<int, long> spin = seed =>
        {
            long x = seed;
            for (var i = 0; i < rounds; i++) x = x * 47 + i; // line: lambda
            return x;
        };
        var begin = Kernel.ThreadCpu;
        sink += spin(4);
        Tell("lambda", Kernel.ThreadCpu - begin);
    }

    static async Task Async(int rounds)
    {
        long x = 5;
        await default(AtOnce);
        var begin = Kernel.ThreadCpu;
        for (var i = 0; i < rounds; i++) x = x * 53 - i; // line: async
        Tell("async", Kernel.ThreadCpu - begin);
        await default(AtOnce);
        sink += x;
    }

    /// <summary>Awaited, it leaves the method, which then goes on: on the same thread.</summary>
    readonly struct AtOnce : INotifyCompletion
    {
        public AtOnce GetAwaiter() => this;
        public bool IsCompleted => false;
        public void GetResult() { }
        public void OnCompleted(Action next) => next();
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void Generic<T>(T[] items, int rounds)
    {
        long x = items.Length;
        var begin = Kernel.ThreadCpu;
        for (var i = 0; i < rounds; i++) x = x * 59 + i; // line: generic
        Tell("generic", Kernel.ThreadCpu - begin);
        sink += x;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void Handlers(int rounds)
    {
        long x = 6;
        try
        {
            try
            {
                Fail(rounds); // call: fail
            }
            finally
            {
                var begin = Kernel.ThreadCpu;
                for (var i = 0; i < rounds; i++) x = x * 61 - i; // line: finally
                Tell("finally", Kernel.ThreadCpu - begin);
            }
        }
        catch (InvalidOperationException)
        {
            var begin = Kernel.ThreadCpu;
            for (var i = 0; i < rounds; i++) x = x * 67 + i; // line: catch
            Tell("catch", Kernel.ThreadCpu - begin);
        }
        sink += x;
    }

    // It never returns, so nothing of its caller need stand behind its call. That is for the
    // compiler to find out: it would not look into a method that may not be inlined.
    static void Fail(int rounds)
    {
        var begin = Kernel.ThreadCpu;
        sink += Spin(rounds);
        Tell("fail", Kernel.ThreadCpu - begin);
        throw new InvalidOperationException();
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void Calls(int rounds)
    {
        var words = (string[])Words.Clone();
        var begin = Kernel.ThreadCpu;
        Array.Sort(words, StringComparer.Ordinal); // call: sort
        var middle = Kernel.ThreadCpu;
        var x = Spin(rounds); // call: spin
        var end = Kernel.ThreadCpu;
        Tell("sort", middle - begin);
        Tell("spin", end - middle);
        // Without a second use the compiler would leave the array on the stack of the IL, and the
        // runtime knows places only where that is empty.
        sink += x + words.Length;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static long Spin(int rounds)
    {
        long x = 7;
        for (var i = 0; i < rounds; i++) x = x * 71 - i;
        return x;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void CallInlined(int rounds)
    {
        var begin = Kernel.ThreadCpu;
        var x = Inlined(rounds); // line: inlined-call
        Tell("inlined", Kernel.ThreadCpu - begin);
        sink += x;
    }

    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    static long Inlined(int rounds)
    {
        long x = 8;
        for (var i = 0; i < rounds; i++) x = x * 73 + i; // line: inlined-body
        return x;
    }
}
