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
    // Of eight bytes.
    const int DigitsEach = 16;

    const ulong FnvOffset = 14695981039346656037;
    const ulong FnvPrime = 1099511628211;

    // The golden ratio: steps of it, mixed, are numbers without a pattern and without repetition.
    const long RandomStep = unchecked((long)0x9E3779B97F4A7C15);

    // Any that are far from each other make three numbers of one.
    const ulong SecondBits = 0xC2B2AE3D27D4EB4F;
    const ulong ThirdBits = 0x165667B19E3779F9;

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
    public ulong Number => BinaryPrimitives.ReverseEndianness(Id);

    /// <summary>
    /// Ids for a request that nobody traces. Not for secrets; unlike a Guid it needs no system call
    /// a request, and threads that begin some at the same time meet once.
    /// </summary>
    public static SpanIds Random()
    {
        var state = unchecked((ulong)Interlocked.Add(ref randomState, RandomStep));
        return new(Mixed(state), Mixed(state ^ SecondBits), Mixed(state ^ ThirdBits));
    }

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
        var trace = activity.TraceId.ToHexString();
        return new SpanIds(Bytes(trace, 0), Bytes(trace, DigitsEach), IdOf(activity.SpanId));
    }

    /// <summary>The bytes of a span's id; 0 for none.</summary>
    [MethodImpl(MethodImplOptions.NoInlining)]
    public static ulong IdOf(ActivitySpanId id) => Bytes(id.ToHexString(), 0);

    /// <summary>
    /// Eight bytes, in memory's order, from their hexadecimal digits, which ids are kept as. Four
    /// digits at a time: the ids' own way takes a third of all that a request's begin costs. The
    /// first has the lowest bits, as on all processors that this runtime has.
    /// </summary>
    static ulong Bytes(string digits, int start)
    {
        const ulong Low = 0x000F000F000F000F;
        const ulong Letter = 0x0001000100010001;
        const int LetterBit = 6;
        const ulong Pairs = 0x000000FF000000FF;
        var fours = MemoryMarshal.Cast<char, ulong>(digits.AsSpan(start, DigitsEach));
        ulong bytes = 0;
        for (var i = 0; i < fours.Length; i++)
        {
            var four = fours[i];
            // The low bits of a are those of 1.
            var halves = (four & Low) + (((four >> LetterBit) & Letter) * 9);
            // Each digit has 16 bits, and the first of two the high half of their byte.
            var pairs = ((halves << 4) | (halves >> 16)) & Pairs;
            bytes |= ((pairs | (pairs >> 24)) & 0xFFFF) << (16 * i);
        }
        return bytes;
    }

    static ulong Hash(string? text)
    {
        var hash = FnvOffset;
        foreach (var letter in text ?? "")
            hash = unchecked((hash ^ letter) * FnvPrime);
        return Mixed(hash);
    }

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
