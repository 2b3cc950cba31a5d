using System;
using System.Runtime.CompilerServices;
using System.Threading;

namespace Corprof.Spans;

/// <summary>
/// The calling thread's block, asked for once a thread. The profiler's signal handler reads it on
/// the same thread at any instruction, and another thread while this one waits.
/// </summary>
static unsafe class ThreadBlock
{
    // No initialisers here: they would make each access ask whether they have run.
    const int SwitchesBetweenTries = 1000;

    [ThreadStatic] static nint block;
    [ThreadStatic] static int untilNextTry;

    /// <summary>
    /// Writes what the thread works for from now on. Called at each switch of the execution
    /// context: it allocates nothing, and must not throw, since the runtime would end the process.
    /// </summary>
    public static void Write(Context? context)
    {
        var block = (ContextBlock*)ThreadBlock.block;
        if (block == null)
        {
            block = Find();
            if (block == null)
                return;
        }

        // Volatile writes keep their order, for the compiler and for the processor.
        var sequence = block->Sequence;
        Volatile.Write(ref block->Sequence, sequence + 1);
        Volatile.Write(ref block->Valid, 0);
        if (context != null)
        {
            Volatile.Write(ref block->LocalRoot, context.LocalRoot);
            Volatile.Write(ref block->Labels, context.LabelsNumber);
            Volatile.Write(ref block->TraceFirst, context.Span.TraceFirst);
            Volatile.Write(ref block->TraceLast, context.Span.TraceLast);
            Volatile.Write(ref block->Span, context.Span.Id);
            if (context.Span.Id != 0)
                Volatile.Write(ref block->Valid, 1);
        }
        else
        {
            Volatile.Write(ref block->LocalRoot, 0);
            Volatile.Write(ref block->Labels, 0);
            Volatile.Write(ref block->TraceFirst, 0);
            Volatile.Write(ref block->TraceLast, 0);
            Volatile.Write(ref block->Span, 0);
        }
        Volatile.Write(ref block->Sequence, sequence + 2);
    }

    /// <summary>Asks the agent, at the first switch and then at each thousandth.</summary>
    [MethodImpl(MethodImplOptions.NoInlining)]
    static ContextBlock* Find()
    {
        if (untilNextTry > 0)
        {
            untilNextTry--;
            return null;
        }
        var found = Agent.ThreadContext();
        if (found == null)
            untilNextTry = SwitchesBetweenTries - 1;
        else
            block = (nint)found;
        return found;
    }
}
