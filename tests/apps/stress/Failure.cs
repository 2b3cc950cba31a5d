using System;
using System.Runtime.CompilerServices;

namespace Corprof.TestApps;

/// <summary>Exceptions that pass ten frames with finally blocks, and a filter.</summary>
static class Failure
{
    const int Depth = 10;

    static int unwound;

    public static void ThrowDeep(Pulse pulse)
    {
        while (pulse.Continues)
        {
            try
            {
                Descend(Depth);
            }
            catch (InvalidOperationException e) when (e.Message.Length > 0)
            {
                pulse.Beat();
            }
        }
    }

    /// <summary>Null references, which the processor raises and the runtime handles.</summary>
    public static void Fault(Pulse pulse)
    {
        string nothing = null;
        while (pulse.Continues)
        {
            try
            {
                unwound += nothing.Length;
            }
            catch (NullReferenceException)
            {
                pulse.Beat();
            }
        }
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void Descend(int depth)
    {
        if (depth == 0)
            throw new InvalidOperationException("from the bottom");
        try
        {
            Descend(depth - 1);
        }
        finally
        {
            unwound++;
        }
    }
}
