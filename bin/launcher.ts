// Stops a process that bin/sluice.js started when that launcher ends, even by SIGKILL.

import { Socket } from 'node:net'

/**
 * Stops this process, as SIGTERM does, when the launcher that started it ends. Does nothing in a process that no launcher started. Call it first:
 * child processes must not inherit the launcher's variable.
 *
 * The launcher holds the only other end of file descriptor 3 and puts its process id in `SLUICE_LAUNCHER`. The id is compared, so that
 * a variable set elsewhere never makes this process read a file descriptor that is not the launcher's.
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
  pipe.on('error', () => undefined) // an error also ends the pipe: close follows
  pipe.on('close', () => process.kill(process.pid, 'SIGTERM'))
  pipe.resume().unref()
}
