using System;
using System.Runtime.CompilerServices;

namespace Corprof.TestApps;

/// <summary>Exceptions from some calls deep, one after the other.</summary>
static class Throwing
{
    const int Depth = 10;

    public static void Throw(Func<bool> continues)
    {
        while (continues())
        {
            try
            {
                Descend(Depth);
            }
            catch (InvalidOperationException)
            {
            }
        }
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static int Descend(int depth)
    {
        if (depth == 0)
            throw new InvalidOperationException("on purpose");
        try
        {
            return Descend(depth - 1) + 1;
        }
        finally
        {
            GC.KeepAlive(depth);
        }
    }
}
