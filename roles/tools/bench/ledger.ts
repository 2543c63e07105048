// The ledger of a load, a file: its plan, and the numbers of the messages that were acknowledged.
//
// A message's number leads to its content, by which it is found in any store: neither MQTT nor another pipeline says at which position of a log it is.
// A line for each second has ranges of numbers, so a million messages take kilobytes, and a killed load leaves what it had. A message that is in no line
// may or may not be stored.

import { open, readFile } from 'node:fs/promises'
import { ToolError } from '../../../bin/streams.ts'
import type { LoadPlan } from './messages.ts'

const format = 'sluice-load-1'

export interface LedgerFile {
  /** The messages with these numbers, `[from, to)`. */
  acknowledge(from: number, to: number): void
  /** Writes what was acknowledged since. @throws ToolError */
  flush(): Promise<void>
  close(): Promise<void>
}

/** @throws ToolError if the file exists already, or cannot be written */
export async function createLedger(path: string, plan: LoadPlan): Promise<LedgerFile> {
  const file = await open(path, 'wx').catch((cause: NodeJS.ErrnoException) => {
    if (cause.code !== 'EEXIST') throw unwritable(path, cause)
    throw new ToolError(`the ledger ${JSON.stringify(path)} exists already: name another file with --ledger`, { cause })
  })
  let acknowledged: [number, number][] = []

  async function write(line: object): Promise<void> {
    await file.appendFile(`${JSON.stringify(line)}\n`).catch((cause: unknown) => {
      throw unwritable(path, cause)
    })
  }

  async function flush(): Promise<void> {
    if (acknowledged.length === 0) return
    const ranges = joined(acknowledged)
    acknowledged = []
    await write({ acknowledged: ranges })
  }

  await write({ format, ...plan })
  return {
    acknowledge: (from, to) => void acknowledged.push([from, to]),
    flush,
    async close() {
      await flush()
      await file.close()
    },
  }
}

export interface Ledger {
  readonly plan: LoadPlan
  /** 1 for each message that was acknowledged, by its number. */
  readonly acknowledged: Uint8Array
}

/** @throws ToolError if the file cannot be read, or is not a ledger */
export async function readLedger(path: string): Promise<Ledger> {
  const text = await readFile(path, 'utf8').catch((cause: Error) => {
    throw new ToolError(`the ledger ${JSON.stringify(path)} cannot be read (${cause.message})`, { cause })
  })
  // What follows the last line feed was cut off.
  const [first, ...lines] = text.split('\n').slice(0, -1)
  const plan = parsed(first ?? '') as (LoadPlan & { format: string }) | undefined
  if (plan?.format !== format)
    throw new ToolError(`${JSON.stringify(path)} is not the ledger of a load: name the file of ./sluice bench load`)
  const acknowledged = new Uint8Array(plan.messages)
  for (const line of lines) {
    const { acknowledged: ranges = [] } = (parsed(line) ?? {}) as { acknowledged?: [number, number][] }
    for (const [from, to] of ranges) acknowledged.fill(1, from, to)
  }
  return { plan, acknowledged }
}

function parsed(line: string): unknown {
  try {
    return JSON.parse(line)
  } catch {
    return undefined
  }
}

/** In order, and adjacent ones as one. */
function joined(ranges: [number, number][]): [number, number][] {
  const fewer: [number, number][] = []
  for (const [from, to] of ranges.sort(([one], [other]) => one - other)) {
    const last = fewer.at(-1)
    if (last?.[1] === from) last[1] = to
    else fewer.push([from, to])
  }
  return fewer
}

function unwritable(path: string, cause: unknown): ToolError {
  return new ToolError(`the ledger ${JSON.stringify(path)} cannot be written (${(cause as Error).message})`, { cause })
}
