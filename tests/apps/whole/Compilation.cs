using System;
using System.Diagnostics;
using System.Runtime.CompilerServices;
using System.Threading;

namespace Corprof.TestApps;

/// <summary>
/// Work for the JIT: the same methods over ever other types, called often enough that it compiles
/// them again in the background.
/// </summary>
static class Compilation
{
    const int Calls = 60;
    const int Batch = 60;
    // The background works by itself while nothing new comes.
    const int PauseMillis = 20;

    struct Wrap<T>
    {
        public T Value;
        public int Number;
    }

    struct Other<T>
    {
        public int Number;
        public T Value;
    }

    interface ITask
    {
        int Run(int seed);
    }

    sealed class Work<T> : ITask
        where T : struct
    {
        readonly T[] items = new T[8];

        [MethodImpl(MethodImplOptions.NoInlining)]
        public int Run(int seed)
        {
            var sum = 0;
            for (var i = 0; i < items.Length; i++)
            {
                var item = items[(i + seed) & 7];
                items[i] = item;
                sum += Mix(item, seed + i) ^ Count(items);
            }
            return sum;
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static int Mix(T item, int seed)
        {
            switch (seed & 7)
            {
                case 0: return Unsafe.SizeOf<T>();
                case 1: return seed * 31;
                case 2: return seed ^ 0x55;
                case 3: return Math.Max(seed, 77);
                default: return seed - 1;
            }
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static int Count(T[] items)
        {
            var count = 0;
            foreach (var other in items)
                count += Unsafe.SizeOf<T>() + (count & 3);
            return count;
        }
    }

    /// <summary>
    /// Batches one after the other, or, with a pace in milliseconds, one each time that it has
    /// passed: then two processes compile the same however much else there is to do.
    /// </summary>
    public static void Compile(Func<bool> continues, int paceMillis)
    {
        var watch = Stopwatch.StartNew();
        var due = 0L;
        var number = Environment.CurrentManagedThreadId * 100_000;
        while (continues())
        {
            for (var i = 0; i < Batch && continues(); i++)
            {
                var type = typeof(Work<>).MakeGenericType(TypeOf(number++));
                var task = (ITask)Activator.CreateInstance(type);
                for (var call = 0; call < Calls; call++)
                    task.Run(call);
            }
            due += paceMillis;
            Thread.Sleep((int)Math.Max(PauseMillis, due - watch.ElapsedMilliseconds));
        }
    }

    /// <summary>A type of its own for each number: its digits in base two.</summary>
    static Type TypeOf(int number)
    {
        var type = typeof(int);
        for (; number > 0; number /= 2)
            type = (number % 2 == 0 ? typeof(Wrap<>) : typeof(Other<>)).MakeGenericType(type);
        return type;
    }
}
