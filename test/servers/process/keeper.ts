// Runs a server so that it ends with the process that started it, however that dies.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'

export type Signal = 'TERM' | 'KILL' | 'STOP' | 'CONT' | 'INT' | 'QUIT'

/** A running server. */
export interface Kept {
  /** Of the server itself. */
  readonly pid: number
  /** False once it has ended, by itself or by a signal. */
  readonly alive: boolean
  signal(name: Signal): void
  /** Sends the signal, and resolves when the server has ended. */
  end(name: Signal): Promise<void>
}

export interface KeepOptions {
  /** Its working folder, which is removed if this process dies. */
  folder: string
  /** True for the output line that says that the server is ready. */
  isReady: (line: string) => boolean
  /** The user of the server; the current one by default. */
  owner?: { uid: number; gid: number } | undefined
  env?: Readonly<Record<string, string>>
  /** The signal that ends it if this process dies; KILL by default. */
  lastSignal?: Signal
  /** Time limit for becoming ready. */
  startMsMax?: number
}

/**
 * A shell that reads from a pipe: each word is a signal for the server, and the end of the pipe, also after this process was killed, ends the
 * server. Then the shell removes the folder.
 */
const keeper = `
folder=$1; last=$2; shift 2
exec 3<&0
"$@" </dev/null >&2 3<&- & server=$!
echo $server
exec >/dev/null 2>&1 # a word to who is gone would end the shell
{
  while read -r signal <&3; do kill -$signal $server; done
  touch "$folder/orphaned"
  kill -$last $server
} & watcher=$!
wait $server
code=$?
kill $watcher
[ -e "$folder/orphaned" ] && rm -rf "$folder"
exit $code`

const linesKept = 40

/**
 * Starts a server and waits until it is ready.
 *
 * @throws Error with its last output if it ends before that, or is not ready in time
 */
export async function keep(command: readonly string[], options: KeepOptions): Promise<Kept> {
  const { folder, isReady, owner, env, lastSignal = 'KILL', startMsMax = 240_000 } = options
  const shell = spawn('sh', ['-c', keeper, 'sh', folder, lastSignal, ...command], {
    ...owner,
    cwd: folder,
    env: { PATH: process.env['PATH'] ?? '', ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
    // In a separate session: a Ctrl-C in the terminal reaches the tests, which end the server.
    detached: true,
  })
  const gone = once(shell, 'exit')
  // The shell ends with the server, so a later signal fails.
  shell.stdin.on('error', () => undefined)
  const isAlive = (): boolean => shell.exitCode === null && shell.signalCode === null
  const send = (name: Signal): void => {
    if (isAlive()) shell.stdin.write(`${name}\n`)
  }

  const last: string[] = []
  const ready = Promise.withResolvers<void>()
  const pid = Promise.withResolvers<number>()
  createInterface({ input: shell.stdout }).on('line', line => pid.resolve(Number(line)))
  createInterface({ input: shell.stderr })
    .on('line', line => {
      if (last.push(line) > linesKept) last.shift()
      if (isReady(line)) ready.resolve()
    })
    .on('close', () => ready.reject(new Error(`${command[0]} ended:\n${last.join('\n')}`)))
  const timer = setTimeout(() => {
    ready.reject(new Error(`${command[0]} was not ready after ${startMsMax} ms:\n${last.join('\n')}`))
    send('KILL')
  }, startMsMax)
  try {
    await ready.promise
  } finally {
    clearTimeout(timer)
  }
  // Its output is still read, so that it never blocks on a full pipe, but does not keep this process alive.
  shell.unref()
  for (const stream of [shell.stdin, shell.stdout, shell.stderr]) (stream as unknown as { unref(): void }).unref()

  const server = await pid.promise
  return {
    pid: server,
    get alive() {
      return isAlive()
    },
    signal: name => {
      if (!isAlive()) return
      try {
        process.kill(server, `SIG${name}`)
        if (name === 'STOP') waitUntilHalted(server)
      } catch (error) {
        // It has ended, and the shell has not reported that yet.
        if (!isGone(error)) throw error
      }
    },
    end: async name => {
      if (!isAlive()) return
      shell.ref()
      send(name)
      // A frozen server would not handle the signal.
      send('CONT')
      await gone
    },
  }
}

const haltMsMax = 60_000

/** Until every thread has stopped, they may answer requests. Linux only, like the servers. */
function waitUntilHalted(pid: number): void {
  const tasks = `/proc/${pid}/task`
  const deadlineMs = performance.now() + haltMsMax
  while (!readdirSync(tasks).every(thread => isHalted(join(tasks, thread, 'stat')))) {
    if (performance.now() > deadlineMs) throw new Error(`process ${pid} has threads that run ${haltMsMax} ms after SIGSTOP`)
    Atomics.wait(pause, 0, 0, 1)
  }
}

const pause = new Int32Array(new SharedArrayBuffer(4))

/** True also for a thread that has ended. */
function isHalted(stat: string): boolean {
  try {
    const line = readFileSync(stat, 'utf8')
    // The state follows the name, which may contain anything: proc_pid_stat(5).
    return 'TZX'.includes(line.charAt(line.lastIndexOf(')') + 2))
  } catch (error) {
    if (isGone(error)) return true
    throw error
  }
}

function isGone(error: unknown): boolean {
  return ['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '')
}
