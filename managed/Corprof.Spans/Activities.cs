using System;
using System.Diagnostics;
using System.IO;
using System.Runtime.CompilerServices;

namespace Corprof.Spans;

/// <summary>
/// Follows <see cref="Activity.Current"/> by its own event, and not as a listener of activities:
/// with a listener <c>ActivitySource.HasListeners</c> is true, and libraries then do things that
/// they would not, such as to remove a program's own headers from a redirected request.
/// </summary>
static class Activities
{
    const string HostingName = "Microsoft.AspNetCore.Hosting.HttpRequestIn";

    const ulong NanosPerTick = 100;

    // More parents than any program has, so that even a wrong chain ends.
    const int ParentsMax = 1000;

    // Where an activity that began a request has it, for all flows: each is told of once, and ends
    // once, wherever the activity is handed to. In a table beside them each had a handle, which
    // each collection of garbage looks at: it stopped the program ten times as long.
    const string RequestProperty = "corprof.request";

    // Who may give a request to an activity that was not seen to begin.
    static readonly object Giving = new();

    static Func<Activity, string, object?> property = (_, _) => null;
    static Action<Activity, string, object?> setProperty = (_, _, _) => { };
    static Func<Activity, bool> isStopped = _ => false;
    static Func<Activity, string?> displayName = activity => activity.OperationName;

    /// <summary>Begins to follow; false if this runtime has no such event.</summary>
    public static bool Follow()
    {
        // Not by its name: to parse that takes the runtime longer than all that follows.
        try
        {
            return FollowActivity();
        }
        catch (Exception error)
            when (error is IOException or TypeLoadException or MissingMemberException)
        {
            return false;
        }
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static bool FollowActivity()
    {
        var type = typeof(Activity);
        var changed = type.GetEvent("CurrentChanged");
        var stopped = type.GetProperty("IsStopped")?.GetGetMethod();
        var name = type.GetProperty("DisplayName")?.GetGetMethod();
        var get = type.GetMethod("GetCustomProperty");
        var set = type.GetMethod("SetCustomProperty");
        if (changed == null || stopped == null || name == null || get == null || set == null)
            return false;
        isStopped = Late.Open<Func<Activity, bool>>(stopped);
        displayName = Late.Open<Func<Activity, string?>>(name);
        property = Late.Open<Func<Activity, string, object?>>(get);
        setProperty = Late.Open<Action<Activity, string, object?>>(set);
        var handler = changed.EventHandlerType!;
        var argument = handler.GetGenericArguments()[0];
        var method = Late.Generic(typeof(Activities), nameof(OnCurrentChanged), argument);
        changed.AddEventHandler(null, method.CreateDelegate(handler));
        return true;
    }

    /// <summary>
    /// Called when a program starts or stops an activity, or sets the current one, on the thread
    /// that does. The event's own type is unknown here, and so is its argument.
    /// </summary>
    static void OnCurrentChanged<T>(object? sender, T change)
    {
        // The caller is the program itself: nothing of ours may end its work.
        try
        {
            var from = Flow.Current;
            Flow.Current = After(from, Activity.Current);
        }
        catch (Exception)
        {
            // The samples keep the span that the thread had.
        }
    }

    /// <summary>The context after the activity has become the current one.</summary>
    static Context? After(Context? from, Activity? activity)
    {
        activity = Unstopped(activity);
        if (from == null)
            return activity == null ? null : Enter(null, activity);
        if (EndedRequest(from, activity) is { } request)
        {
            End(request);
            // With the labels of then: what was set meanwhile ends with the request.
            return request.Outer;
        }
        if (IsOf(from, activity))
            return from;
        if (activity == null && !isStopped((Activity)from.Activity!) && !IsInBareRequest(from))
            return Context.WithoutSpan(from);
        for (var outer = from.Outer; outer != null; outer = outer.Outer)
        {
            if (IsOf(outer, activity))
                return Context.With(outer, from.Labels);
        }
        return activity == null ? Context.With(null, from.Labels) : Enter(from, activity);
    }

    /// <summary>
    /// A program that stops activities in a wrong order makes one current that has ended; its work
    /// is then for the one around it.
    /// </summary>
    static Activity? Unstopped(Activity? activity)
    {
        for (var i = 0; i < ParentsMax && activity != null && isStopped(activity); i++)
            activity = activity.Parent;
        return activity;
    }

    /// <summary>The request whose activity has just been stopped, in whichever order.</summary>
    static Request? EndedRequest(Context from, Activity? activity)
    {
        Request? last = null;
        for (var context = from; context != null; context = context.Outer)
        {
            if (context.Request is not { Activity: Activity root } request
                || ReferenceEquals(request, last))
                continue;
            if (isStopped(root) && IsOf(request.Outer, activity))
                return request;
            last = request;
        }
        return null;
    }

    static bool IsOf(Context? context, Activity? activity) =>
        ReferenceEquals(context?.Activity, activity);

    static Context Enter(Context? from, Activity activity)
    {
        var isChild = from != null && activity.Parent != null && IsOf(from, activity.Parent);
        var span = SpanIds.Of(activity, isChild ? from!.Span : default);
        if (RequestAround(from, activity) is { } request)
            return Context.Enter(from, span, request, activity);
        if (property(activity, RequestProperty) is Request known)
            return Context.Enter(from, span, known, activity);
        request = new Request(span.Number, activity, from);
        setProperty(activity, RequestProperty, request);
        // That of an HTTP request is named a moment later, when the server tells of it.
        if (!IsHosting(activity))
            request.Name(Endpoints.Number(displayName(activity)));
        return Context.Enter(from, span, request, activity);
    }

    /// <summary>The request that an activity belongs to; null if it is one itself.</summary>
    static Request? RequestAround(Context? from, Activity activity)
    {
        // Until the server has told of its request, instrumentations may put another activity in
        // the place of the server's, of the same name and with a parent of their choice.
        if (from?.Request is { IsHttp: false, Activity: Activity root } begun && IsHosting(root))
            return begun;
        if (IsHosting(activity))
            return null;
        // Back from its child: found without a walk to the root, which ends somewhere.
        if (from?.Activity is Activity child && !IsHosting(child)
            && ReferenceEquals(child.Parent, activity))
            return from.Request;
        if (activity.Parent is { } parent)
            return from != null && IsOf(from, parent) ? from.Request : RequestOf(from, parent);
        // Its parent is in another process, or in this one and known by its ids only.
        var parentId = SpanIds.IdOf(activity.ParentSpanId);
        for (var outer = from; outer != null; outer = outer.Outer)
        {
            if (parentId != 0 && outer.Span.Id == parentId)
                return outer.Request;
        }
        // A request that has no activity is not known to whoever started this one.
        return from?.Request is { Activity: null } bare ? bare : null;
    }

    static Request RequestOf(Context? from, Activity activity)
    {
        var root = activity;
        for (var i = 0; i < ParentsMax && root.Parent != null && !IsHosting(root); i++)
            root = root.Parent;
        for (var outer = from; outer != null; outer = outer.Outer)
        {
            if (IsOf(outer, activity) || ReferenceEquals(outer.Request?.Activity, root))
                return outer.Request!;
        }
        // Made current in another flow than it was started in, or work that outlives its request.
        lock (Giving)
        {
            if (property(root, RequestProperty) is Request known)
                return known;
            var request = new Request(SpanIds.Of(root).Number, root, null);
            setProperty(root, RequestProperty, request);
            return request;
        }
    }

    /// <summary>Whether the flow works for a request that has no activity.</summary>
    static bool IsInBareRequest(Context from) => from.Request is { Activity: null };

    /// <summary>Whether it is ASP.NET Core's activity of a request.</summary>
    public static bool IsHosting(Activity activity) => activity.OperationName == HostingName;

    static void End(Request request)
    {
        var root = (Activity)request.Activity!;
        // OpenTelemetry's instrumentations give a better name while the activity runs; but that of
        // a client's call is the method alone.
        var name = displayName(root);
        if (name != root.OperationName && !Routes.IsMethod(name))
            request.Name(Endpoints.Number(name));
        request.End((ulong)root.Duration.Ticks * NanosPerTick);
    }
}
