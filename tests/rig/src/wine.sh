# Runs a command under Wine in a Debian folder, in a mount namespace of its own, which vanishes with
# it. ROOT: the folder. SHARED: what is seen inside as /mnt/W, and by Windows programs as Z:\mnt\W.
set -eu
mkdir -p "$ROOT/mnt/W"
mount -t proc proc "$ROOT/proc"
mount --rbind /dev "$ROOT/dev"
mount --rbind /sys "$ROOT/sys"
mount --bind "$SHARED" "$ROOT/mnt/W"
exec chroot "$ROOT" /usr/bin/env -C /mnt/W HOME=/root DISPLAY= WINEARCH=win64 \
    WINEPREFIX=/mnt/W/windows/prefix WINEDEBUG=-all XDG_RUNTIME_DIR=/tmp "$@"
