// What a process that bin/sluice.js started does about its launcher: it stops when the launcher is gone, by SIGKILL too.

import { Socket } from 'node:net'

/**
 * Stops this process, as SIGTERM does, when the launcher that started it ends. A process that no launcher started is left alone. Call before
 * anything else, since the environment must not pass the launcher's word on.
 *
 * The launcher holds the only other end of file descriptor 3, and names itself in `SLUICE_LAUNCHER`: by its process id, so that
 * a variable that comes from elsewhere makes nothing read a file descriptor that is not the launcher's.
 */
export function stopWithLauncher(): void {
  const launcher = process.env['SLUICE_LAUNCHER']
  delete process.env['SLUICE_LAUNCHER']
  if (launcher === undefined) return
  if (launcher !== String(process.ppid)) {
    console.error(`the launcher of this process (SLUICE_LAUNCHER=${launcher}) is gone: start sluice again, without that variable`)
    process.exit(1)
  }
  const pipe = new Socket({ fd: 3 })
  pipe.on('error', () => undefined) // its end, too: close follows
  pipe.on('close', () => process.kill(process.pid, 'SIGTERM'))
  pipe.resume().unref()
}
