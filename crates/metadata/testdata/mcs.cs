// What mcs makes of constructs whose code it moves. Compiled by mcs 6.8:
// mcs -unsafe -langversion:7 mcs.cs

using System; using System.Collections; using System.Collections.Generic; using System.Linq; using System.Threading.Tasks;
namespace Corprof.Mono {
  interface IWork { void Go(); int Level { get; } }
  class Program : IWork {
    static Action fld = () => Console.WriteLine("field");
    Func<int> inst = () => 3;
    static async Task Async(int x) { await Task.Delay(1); Console.WriteLine(x); }
    static async Task<T> AsyncGeneric<T>(T x) { await Task.Delay(1); return x; }
    static async Task Overloaded(int x) { await Task.Delay(1); }
    static async Task Overloaded(string x) { await Task.Delay(1); }
    static IEnumerable<int> Iter(int n) { try { yield return n; } finally { Console.WriteLine("fin"); } }
    static IEnumerable<T> IterG<T>(T n) { yield return n; }
    IEnumerable<int> Prop { get { yield return 1; } }
    void IWork.Go() { Action f = () => Console.WriteLine(this); f(); }
    int IWork.Level { get { Func<int> f = () => 1; return f(); } }
    static void Lam() { Action f = () => Console.WriteLine("l"); f(); Action<int> g = delegate(int q) { Console.WriteLine(q); }; g(2); }
    static void Cap(int x) { Action f = () => Console.WriteLine(x); f(); }
    static void Nest(int x) { Action f = () => { int y = x; Action g = () => Console.WriteLine(x + y); g(); }; f(); }
    static void LamG<T>(T v) { Action<T> f = q => Console.WriteLine(q); f(v); }
    static void CapG<T>(T v) { Action f = () => Console.WriteLine(v); f(); }
    static async Task AsyncLam() { Func<Task> f = async () => { await Task.Delay(1); }; await f(); int z = 1; Func<Task> g = async () => { await Task.Delay(z); Action h = () => Console.WriteLine(z); h(); }; await g(); }
    static IEnumerable<int> IterLam(int x) { Func<int> f = () => x; yield return f(); Func<int> g = () => 5; yield return g(); }
    static void Query(int[] v) { foreach (var a in from i in v where i > 0 select new { i, Name = "x" }) Console.WriteLine(a); }
    Program() { Action f = () => Console.WriteLine("c"); f(); }
    static int P { get { Func<int> f = () => 1; return f(); } }
    public static Program operator +(Program a, int b) { Action f = () => Console.WriteLine(b); f(); return a; }
    static unsafe void Fixed() { S s = new S(); s.Buf[0] = 1; }
    static int Sw(string s) { switch (s) { case "a": return 1; case "b": return 2; case "c": return 3; case "d": return 4; case "e": return 5; case "f": return 6; case "g": return 7; } return 0; }
    static int[] arr = new int[] { 1, 2, 3, 4, 5, 6, 7, 8 };
    static void Main(string[] args) { Action f = () => Console.WriteLine("main"); f(); Lam(); Cap(1); }
    class Seq : IEnumerable<int> { public IEnumerator<int> GetEnumerator() { yield return 1; } IEnumerator IEnumerable.GetEnumerator() { yield return 2; } }
  }
  class G<T> { public void L() { Action f = () => Console.WriteLine(typeof(T)); f(); } public IEnumerable<U> It<U>(U u) { yield return u; } public async Task A(T t) { await Task.Delay(1); Action f = () => Console.WriteLine(t); f(); } }
  unsafe struct S { public fixed int Buf[4]; }
}
