// Runs a server so that it ends with the process that started it, however that one dies.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'

export type Signal = 'TERM' | 'KILL' | 'STOP' | 'CONT' | 'INT' | 'QUIT'

/** A server that runs. */
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
  /** Where it runs, and what is removed when nobody is left to do so. */
  folder: string
  /** True for the line by which the server says that it may be used. */
  isReady: (line: string) => boolean
  /** As whom it runs; as ourselves if not given. */
  owner?: { uid: number; gid: number } | undefined
  env?: Readonly<Record<string, string>>
  /** What ends it when nobody is left to end it otherwise; KILL if not given. */
  lastSignal?: Signal
  /** After which a server that has not said so is given up. */
  startMsMax?: number
}

/**
 * A shell that holds a pipe to us: each word in it is a signal for the server, and its end, which comes also when this process is
 * killed, ends the server. Then nobody is left to remove the folder, so the shell does.
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
 * Starts a server and waits until it says that it is ready.
 *
 * @throws Error with its last words when it ends before that, or is not ready in time
 */
export async function keep(command: readonly string[], options: KeepOptions): Promise<Kept> {
  const { folder, isReady, owner, env, lastSignal = 'KILL', startMsMax = 60_000 } = options
  const shell = spawn('sh', ['-c', keeper, 'sh', folder, lastSignal, ...command], {
    ...owner,
    cwd: folder,
    env: { PATH: process.env['PATH'] ?? '', ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
    // In a session of its own: a Ctrl-C in the terminal reaches the tests, and they end the server.
    detached: true,
  })
  const gone = once(shell, 'exit')
  // The shell is gone together with the server; a word to it then is a word too late.
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
  // Its output is read on, so that it never waits for room in the pipe, without keeping this process alive.
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
        // Halted is halted when this returns: by way of the shell it would answer for some milliseconds more.
        process.kill(server, `SIG${name}`)
      } catch (error) {
        // It is gone, and the shell has not said so yet.
        if ((error as { code?: string }).code !== 'ESRCH') throw error
      }
    },
    end: async name => {
      if (!isAlive()) return
      shell.ref()
      send(name)
      // One that is halted would never see it.
      send('CONT')
      await gone
    },
  }
}
