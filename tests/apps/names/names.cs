// Every C# construct whose metadata name differs from what its author wrote, one after another.
// Each burns a known amount of its thread's CPU time by calling Work.Burn directly, so in a profile
// the frame above Burn is the construct. What that frame must be called is in
// tests/golden/names.txt, by the description given to Case.
//
//   names.dll [MS]      CPU time of each construct, default 40 ms
//   NAMES_TOKENS=1      also prints "token <tab> description" of each caller of Burn; of those
//                       that are in no metadata of this assembly, "- <tab> description <tab> name"
//
// `Total += Burn(Ms)` everywhere: the addition after the call keeps the JIT from making it a tail
// call, which would take the construct's own frame away. C# 12, unsafe.

global using System;
global using System.Collections;
global using System.Collections.Generic;
global using System.Diagnostics;
global using System.Linq;
global using System.Linq.Expressions;
global using System.Reflection;
global using System.Reflection.Emit;
global using System.Runtime.CompilerServices;
global using System.Runtime.InteropServices;
global using System.Text;
global using System.Threading;
global using System.Threading.Tasks;
global using static Corprof.TestApps.Names.Work;
using Corprof.TestApps.Names;

if (args.Length > 0) Ms = int.Parse(args[0]);
Case("top-level statements");
Total += Burn(Ms);
Case("lambda in top-level statements");
Action topLambda = () => Total += Burn(Ms);
topLambda();
Case("local function in top-level statements");
TopLocal();
await Task.Yield();
Case("top-level statements after an await");
Total += Burn(Ms);

Methods.Run();
Generics.Run();
Types.Run();
Members.Run();
Operators.Run();
Lambdas.Run();
LocalFunctions.Run();
Parameters.Run();
RunTime.Run();
Flow.Run();
await Asynchronous.Run();
await Sequences.Run();
Console.WriteLine($"{Cases} constructs, {Total / 1_000_000} ms");

[MethodImpl(MethodImplOptions.NoInlining)]
static void TopLocal() => Total += Burn(Ms);

#pragma warning disable CS0649 // never assigned

namespace Corprof.TestApps.Names
{
    /// <summary>The known work.</summary>
    public static unsafe class Work
    {
        public const MethodImplOptions No = MethodImplOptions.NoInlining;
        public static int Ms = 40;
        public static long Total;
        public static int Cases;
        static string current = "module initializer";
        static readonly bool tokens = Environment.GetEnvironmentVariable("NAMES_TOKENS") == "1";

        struct Timespec { public long Seconds, Nanos; }

        [DllImport("libc")]
        static extern int clock_gettime(int clock, Timespec* time);

        const int ThreadCpuTime = 3;

        public static void Case(string description)
        {
            current = description;
            Cases++;
        }

        /// <summary>Burns ms of the calling thread's CPU time; returns what it was, in ns.</summary>
        [MethodImpl(No)]
        public static long Burn(int ms)
        {
            if (tokens) PrintCaller(new StackFrame(1).GetMethod());
            long start = CpuNanos(), wanted = ms * 1_000_000L, spent;
            do
            {
                for (int i = 0; i < 2000; i++) Spin = Spin * 31 + i;
                spent = CpuNanos() - start;
            } while (spent < wanted);
            return spent;
        }

        public static int Spin;

        static long CpuNanos()
        {
            Timespec now;
            clock_gettime(ThreadCpuTime, &now);
            return now.Seconds * 1_000_000_000 + now.Nanos;
        }

        static void PrintCaller(MethodBase? caller)
        {
            bool isOurs = caller?.Module.Assembly == typeof(Work).Assembly && caller is not DynamicMethod;
            string who = "-";
            try { if (isOurs) who = caller!.MetadataToken.ToString("x8"); } catch (InvalidOperationException) { }
            Console.WriteLine($"{who}\t{current}" + (who == "-" ? $"\t{caller?.Name}" : ""));
        }
    }

    static class Startup
    {
        [ModuleInitializer]
        internal static void Init()
        {
            if (Environment.GetCommandLineArgs() is [.., var last] && int.TryParse(last, out int ms)) Ms = ms;
            Total += Burn(Ms);
        }
    }

    // ---- methods ----

    static class Methods
    {
        public static void Run()
        {
            var plain = new Plain();
            Case("static method"); Plain.StaticMethod();
            Case("instance method"); plain.InstanceMethod(1);
            Case("virtual method"); new Base().VirtualMethod();
            Case("override"); ((Base)new Derived()).VirtualMethod();
            Case("method of the base class"); new Derived().Inherited();
            Case("interface default method"); ((IGreeter)plain).DefaultMethod("x");
            Case("interface static method"); IGreeter.StaticInInterface();
            Case("explicit interface implementation"); ((IWorker)new Explicit()).Work();
            Case("explicit implementation of a generic interface"); ((IHandler<string>)new Explicit()).Handle("x");
            Case("explicit implementation of a generic interface over a generic"); ((IHandler<List<int[]>>)new Explicit()).Handle([]);
            Case("explicit interface property"); Total += ((IWorker)new Explicit()).Progress;
            Case("explicit interface indexer"); Total += ((IWorker)new Explicit())[1];
            Case("explicit interface event"); ((IWorker)new Explicit()).Done += Plain.StaticMethod;
            Case("static abstract interface member"); Construct<Meters>();
            Case("static virtual default in an interface"); Fallback<Meters>();
            Case("explicit static abstract operator"); Add(new Meters(), new Meters());
            Case("extension method"); "x".Shout(2);
            Case("partial method"); new Halves().Hook(1);
            Case("recursive method"); Plain.Recursive(3);
            Case("method with a name in another script"); Plain.Größe();
        }

        static void Construct<T>() where T : IUnit<T> => T.Create(1);
        static void Fallback<T>() where T : IUnit<T> => T.Describe();
        static void Add<T>(T a, T b) where T : IUnit<T> => _ = a + b;
    }

    class Plain : IGreeter
    {
        [MethodImpl(No)] public static void StaticMethod() => Total += Burn(Ms);
        [MethodImpl(No)] public void InstanceMethod(int _) => Total += Burn(Ms);
        [MethodImpl(No)] public static int Recursive(int depth)
        {
            if (depth > 0) return Recursive(depth - 1) + 1;
            Total += Burn(Ms);
            return 0;
        }
        [MethodImpl(No)] public static void Größe() => Total += Burn(Ms);
    }

    class Base
    {
        [MethodImpl(No)] public virtual void VirtualMethod() => Total += Burn(Ms);
        [MethodImpl(No)] public void Inherited() => Total += Burn(Ms);
    }

    class Derived : Base
    {
        [MethodImpl(No)] public override void VirtualMethod() => Total += Burn(Ms);
    }

    interface IGreeter
    {
        [MethodImpl(No)] void DefaultMethod(string name) => Total += Burn(Ms);
        [MethodImpl(No)] static void StaticInInterface() => Total += Burn(Ms);
    }

    interface IWorker
    {
        void Work();
        int Progress { get; }
        int this[int index] { get; }
        event Action Done;
    }

    interface IHandler<in T> { void Handle(T value); }

    class Explicit : IWorker, IHandler<string>, IHandler<List<int[]>>
    {
        [MethodImpl(No)] void IWorker.Work() => Total += Burn(Ms);
        [MethodImpl(No)] void IHandler<string>.Handle(string value) => Total += Burn(Ms);
        [MethodImpl(No)] void IHandler<List<int[]>>.Handle(List<int[]> value) => Total += Burn(Ms);
        int IWorker.Progress { [MethodImpl(No)] get { Total += Burn(Ms); return 1; } }
        int IWorker.this[int index] { [MethodImpl(No)] get { Total += Burn(Ms); return 1; } }
        event Action IWorker.Done { [MethodImpl(No)] add => Total += Burn(Ms); remove { } }
    }

    interface IUnit<TSelf> where TSelf : IUnit<TSelf>
    {
        static abstract TSelf Create(int value);
        [MethodImpl(No)] static virtual void Describe() => Total += Burn(Ms);
        static abstract TSelf operator +(TSelf left, TSelf right);
    }

    class Meters : IUnit<Meters>
    {
        [MethodImpl(No)] public static Meters Create(int value) { Total += Burn(Ms); return new Meters(); }
        [MethodImpl(No)] static Meters IUnit<Meters>.operator +(Meters left, Meters right) { Total += Burn(Ms); return left; }
    }

    static class Extensions
    {
        [MethodImpl(No)] public static void Shout(this string text, int times) => Total += Burn(Ms);
    }

    partial class Halves { public partial void Hook(int value); }
    partial class Halves { [MethodImpl(No)] public partial void Hook(int value) => Total += Burn(Ms); }

    // ---- generics ----

    static class Generics
    {
        public static void Run()
        {
            Case("generic type over a value"); new Box<int>().Put(1);
            Case("generic type over a reference"); new Box<string>().Put("x");
            Case("generic struct over values"); new Both<int, double>().Swap(1, 2);
            Case("generic type over a user's struct"); new Box<Grid.Cell>().Put(default);
            Case("generic type over a tuple"); new Box<(int, bool)>().Put(default);
            Case("generic type over a nullable"); new Box<int?>().Put(1);
            Case("generic type over an enum"); new Box<DayOfWeek>().Put(default);
            Case("generic type over a generic struct"); new Box<KeyValuePair<int, long>>().Put(default);
            Case("generic method over a value"); Convert(1);
            Case("generic method over a reference"); Convert("x");
            Case("generic method with two parameters"); Combine(1, 2L);
            Case("generic method of a generic type"); new Box<int>().As<byte>(1, 2);
            Case("nested generic types"); new Outer<int>.Inner<long>().Both(1, 2);
            Case("nested type of a generic type"); new Outer<int>.Nested().Only(1);
            Case("nested generic types over references"); new Outer<string>.Inner<object>().Both("", "");
            Case("static constructor of a generic type"); _ = Lazy<int>.Value;
            Case("lambda in a generic method"); Lambda(1);
            Case("lambda in a generic type"); new Box<int>().Lambda();
            Case("capturing lambda in a generic method"); Capture("x");
        }

        [MethodImpl(No)] static void Convert<TValue>(TValue value) => Total += Burn(Ms);
        [MethodImpl(No)] static void Combine<TLeft, TRight>(TLeft left, TRight right) => Total += Burn(Ms);
        static void Lambda<T>(T value) => ((Action<T>)(_ => Total += Burn(Ms)))(value);
        static void Capture<T>(T value) => ((Action)(() => { GC.KeepAlive(value); Total += Burn(Ms); }))();
    }

    class Box<T>
    {
        [MethodImpl(No)] public void Put(T value) => Total += Burn(Ms);
        [MethodImpl(No)] public void As<TOther>(T value, TOther other) => Total += Burn(Ms);
        public void Lambda() => ((Action<T?>)(_ => Total += Burn(Ms)))(default);
    }

    struct Both<TFirst, TSecond>
    {
        [MethodImpl(No)] public void Swap(TFirst first, TSecond second) => Total += Burn(Ms);
    }

    class Outer<T>
    {
        public class Inner<U> { [MethodImpl(No)] public void Both(T first, U second) => Total += Burn(Ms); }
        public class Nested { [MethodImpl(No)] public void Only(T value) => Total += Burn(Ms); }
    }

    static class Lazy<T>
    {
        public static readonly int Value;
        static Lazy() => Total += Burn(Ms);
    }

    static class Grid { public struct Cell { public int X; } }

    // ---- kinds of types, their birth and death ----

    static class Types
    {
        public static void Run()
        {
            Case("nested class"); Nest.Middle.Deep.Run();
            Case("struct method"); new Value().Method();
            Case("readonly struct method"); new Fixed(1).Method();
            Case("ref struct method"); new Window(stackalloc int[4]).Method();
            Case("record method"); new Person("x").Greet();
            Case("record copy constructor"); _ = new Person("x") with { Name = "y" };
            Case("record PrintMembers"); _ = new Person("x").ToString();
            Case("record deconstruct"); var (_, _) = new Split();
            Case("record struct method"); new Point(1, 2).Length();
            Case("constructor"); _ = new Born(1);
            Case("constructor of a generic type"); _ = new Made<int>(1, "x");
            Case("field initialiser"); _ = new Initialised();
            Case("static constructor"); _ = Early.Value;
            Case("static field initialiser"); _ = EarlyField.Value;
            Case("primary constructor"); _ = new Primary(1, "x");
            Case("capture of a primary constructor's parameter"); new Captured(1).Use();
            Case("finalizer"); Drop(); GC.Collect(); GC.WaitForPendingFinalizers();
            Case("enum helper"); Level.High.Raise();
            Case("file-local type"); new Hidden().Run();
            Case("inline array"); Buffer4.Fill();
            Case("delegate to a method group"); Action group = Plain.StaticMethod; group();
        }

        [MethodImpl(No)] static void Drop() => _ = new Doomed();
    }

    class Nest { public class Middle { public static class Deep { [MethodImpl(No)] public static void Run() => Total += Burn(Ms); } } }
    struct Value { [MethodImpl(No)] public void Method() => Total += Burn(Ms); }
    readonly struct Fixed(int value) { [MethodImpl(No)] public void Method() => Total += Burn(Ms) + value; }
    ref struct Window(Span<int> span) { Span<int> kept = span; [MethodImpl(No)] public void Method() => Total += Burn(Ms) + kept.Length; }

    record Person(string Name)
    {
        protected Person(Person original) { Name = original.Name; Total += Burn(Ms); }
        [MethodImpl(No)] public void Greet() => Total += Burn(Ms);
        [MethodImpl(No)] protected virtual bool PrintMembers(StringBuilder builder) { Total += Burn(Ms); return true; }
    }

    record Split { [MethodImpl(No)] public void Deconstruct(out int x, out string y) { (x, y) = (1, ""); Total += Burn(Ms); } }
    record struct Point(int X, int Y) { [MethodImpl(No)] public void Length() => Total += Burn(Ms); }
    class Born { [MethodImpl(No)] public Born(int value) => Total += Burn(Ms); }
    class Made<T> { [MethodImpl(No)] public Made(T value, string text) => Total += Burn(Ms); }
    class Initialised { long value = 1 + Burn(Ms); public long Value => value; }
    class Early { public static readonly int Value; static Early() => Total += Burn(Ms); }
    class EarlyField { public static readonly long Value = 1 + Burn(Ms); }
    [method: MethodImpl(No)] class Primary(int number, string text) { public long Spent = number + text.Length + Burn(Ms); }
    class Captured(int number) { [MethodImpl(No)] public void Use() => Total += Burn(Ms) + number; }
    class Doomed { ~Doomed() => Total += Burn(Ms); }
    enum Level { Low, High }
    static class LevelHelper { [MethodImpl(No)] public static void Raise(this Level level) => Total += Burn(Ms); }
    file class Hidden { [MethodImpl(No)] public void Run() => Total += Burn(Ms); }

    [InlineArray(4)]
    struct Buffer4
    {
        int first;
        public int First => first;
        [MethodImpl(No)] public static void Fill() { var buffer = new Buffer4(); buffer[3] = 1; foreach (int i in buffer) Total += i; Total += Burn(Ms); }
    }
}
