using System.Diagnostics;
using System.Linq;
using System.Threading;
using System.Threading.Tasks;

namespace Corprof.TestApps;

/// <summary>
/// Requests whose work goes on in other flows of execution: each is one request, whoever works for
/// it, and whoever ends it.
/// </summary>
static class Handoffs
{
    const int StepsAfter = 5;

    public static async Task Run(int count)
    {
        for (var i = 0; i < count; i++)
        {
            await Outlived();
            await HandedOn();
            await EndedElsewhere();
        }
        new Truth().Add("each", count).Tell();
    }

    /// <summary>Work that was begun in a request goes on, in steps, when that is over.</summary>
    static async Task Outlived()
    {
        var isOver = new TaskCompletionSource();
        Task rest;
        using (Activities.Source.StartActivity("outlived"))
            rest = Task.Run(() => Rest(isOver.Task));
        isOver.SetResult();
        await rest;
    }

    static async Task Rest(Task isOver)
    {
        await isOver;
        for (var i = 0; i < StepsAfter; i++)
        {
            using var step = Activities.Source.StartActivity("step");
            await Task.Yield();
        }
    }

    /// <summary>Another flow works for the request, and says so by setting the activity.</summary>
    static async Task HandedOn()
    {
        using var request = Activities.Source.StartActivity("handed on");
        Task work;
        using (ExecutionContext.SuppressFlow())
        {
            work = Task.Run(() =>
            {
                Activity.Current = request;
                using (Activities.Source.StartActivity("step"))
                    Thread.Yield();
                Activity.Current = null;
            });
        }
        await work;
    }

    /// <summary>Started here, and stopped where it was handed to.</summary>
    static async Task EndedElsewhere()
    {
        Activity.Current = null;
        var request = Activities.Source.StartActivity("ended elsewhere");
        Activity.Current = null;
        Task end;
        using (ExecutionContext.SuppressFlow())
        {
            end = Task.Run(() =>
            {
                Activity.Current = request;
                request!.Stop();
            });
        }
        await end;
    }
}
