using System;
using System.Buffers.Binary;
using System.Diagnostics;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Threading;

namespace Corprof.Spans;

/// <summary>The ids of a span, as bytes in the order of the W3C's traceparent.</summary>
readonly struct SpanIds
{
    const ulong FnvOffset = 14695981039346656037;
    const ulong FnvPrime = 1099511628211;

    // The golden ratio: steps of it, mixed, are numbers without a pattern and without repetition.
    const long RandomStep = unchecked((long)0x9E3779B97F4A7C15);

    static long randomState = BitConverter.ToInt64(Guid.NewGuid().ToByteArray(), 0);

    /// <summary>The trace's first eight bytes, in memory's order; then the others.</summary>
    public readonly ulong TraceFirst;
    public readonly ulong TraceLast;

    /// <summary>The span's bytes, in memory's order; 0 if there is no span.</summary>
    public readonly ulong Id;

    SpanIds(ulong traceFirst, ulong traceLast, ulong id)
    {
        TraceFirst = traceFirst;
        TraceLast = traceLast;
        Id = id;
    }

    /// <summary>The id as the number that its hexadecimal digits are.</summary>
    public ulong Number =>
        BitConverter.IsLittleEndian ? BinaryPrimitives.ReverseEndianness(Id) : Id;

    /// <summary>Ids for a request that nobody traces.</summary>
    public static SpanIds Random() => new(NextRandom(), NextRandom(), NextRandom());

    /// <summary>
    /// An activity's ids. A hierarchical one has no trace id, and as span id a hash of its own.
    /// The trace id of a child is its parent's, which may be known already.
    /// </summary>
    [MethodImpl(MethodImplOptions.NoInlining)]
    public static SpanIds Of(Activity activity, SpanIds parent = default)
    {
        if (activity.IdFormat != ActivityIdFormat.W3C)
            return new SpanIds(0, 0, Hash(activity.Id));
        if (parent.TraceFirst != 0)
            return new SpanIds(parent.TraceFirst, parent.TraceLast, IdOf(activity.SpanId));
        Span<ulong> trace = stackalloc ulong[2];
        activity.TraceId.CopyTo(MemoryMarshal.AsBytes(trace));
        return new SpanIds(trace[0], trace[1], IdOf(activity.SpanId));
    }

    /// <summary>The bytes of a span's id; 0 for none.</summary>
    [MethodImpl(MethodImplOptions.NoInlining)]
    public static ulong IdOf(ActivitySpanId id)
    {
        if (id == default)
            return 0;
        Span<ulong> bytes = stackalloc ulong[1];
        id.CopyTo(MemoryMarshal.AsBytes(bytes));
        return bytes[0];
    }

    static ulong Hash(string? text)
    {
        var hash = FnvOffset;
        foreach (var letter in text ?? "")
            hash = unchecked((hash ^ letter) * FnvPrime);
        return Mixed(hash);
    }

    /// <summary>Not for secrets; unlike a Guid it needs no system call a request.</summary>
    static ulong NextRandom() =>
        Mixed(unchecked((ulong)Interlocked.Add(ref randomState, RandomStep)));

    /// <summary>All bits depend on all others. Never 0, which would mean none.</summary>
    static ulong Mixed(ulong x)
    {
        unchecked
        {
            x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
            x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
            x ^= x >> 31;
        }
        return x == 0 ? 1 : x;
    }
}
