// Waiting for dependencies at a start, which a signal ends, also during an attempt; and whatever was opened is closed.

import { expect, onTestFinished, test, vi } from 'vitest'
import { aborted } from '../../config/aborting.ts'
import { openOutage } from '../../config/outage.ts'
import { openCleanup, openWhenThere, runProcess, type Waiting } from '../../config/run-process.ts'
import { recordingLogger } from '../pipeline/writer/workers/recording-logger.ts'

class AwayError extends Error {}

function waiting<Part>(parts: Pick<Waiting<Part>, 'open'> & Partial<Waiting<Part>>): Waiting<Part> {
  return {
    isAway: error => error instanceof AwayError,
    outage: openOutage({ logger: recordingLogger().logger, dependency: 'thing', name: 'the thing' })(),
    signal: new AbortController().signal,
    ...parts,
  }
}

test('opening is retried while the dependency is away', async () => {
  let attempts = 0
  const open = async (): Promise<string> => {
    if (++attempts === 1) throw new AwayError('away')
    return 'there'
  }
  expect(await openWhenThere(waiting({ open }))).toBe('there')
  expect(attempts).toBe(2)
})

test('a permanent error is thrown immediately', async () => {
  const open = (): Promise<string> => Promise.reject(new Error('a wrong password'))
  await expect(openWhenThere(waiting({ open }))).rejects.toThrow('a wrong password')
})

test('the signal ends the wait during an attempt, and a part that opens later is closed', async () => {
  const stop = new AbortController()
  const opening = Promise.withResolvers<string>()
  const closed = Promise.withResolvers<string>()
  const open = (): Promise<string> => {
    stop.abort()
    return opening.promise
  }
  expect(await openWhenThere(waiting({ open, signal: stop.signal, closeLate: async part => closed.resolve(part) }))).toBeUndefined()
  opening.resolve('too late')
  expect(await closed.promise).toBe('too late')
})

test('an attempt that fails after the signal, and a late part that does not close, are ignored', async () => {
  for (const ending of ['opening', 'closing']) {
    const stop = new AbortController()
    const opening = Promise.withResolvers<string>()
    const open = (): Promise<string> => {
      stop.abort()
      return opening.promise
    }
    const closeLate = (): Promise<void> => Promise.reject(new Error('does not close'))
    expect(await openWhenThere(waiting({ open, signal: stop.signal, closeLate }))).toBeUndefined()
    if (ending === 'opening') opening.reject(new Error('broken'))
    else opening.resolve('too late')
    // An unhandled rejection would fail the run.
    await new Promise(resolve => setImmediate(resolve))
  }
})

test('a stop that takes longer than its option says ends the process with 1', async () => {
  vi.useFakeTimers()
  const exit = vi.spyOn(process, 'exit').mockImplementation((() => undefined) as unknown as typeof process.exit)
  onTestFinished(() => {
    vi.useRealTimers()
    exit.mockRestore()
  })
  const { logger, lines } = recordingLogger()
  const hanging = Promise.withResolvers<void>()
  const running = runProcess(logger, { stopSeconds: 7 }, async ({ signal, closeLater }) => {
    closeLater(() => hanging.promise)
    await aborted(signal)
  })
  process.emit('SIGTERM', 'SIGTERM')
  await vi.advanceTimersByTimeAsync(6_999)
  expect(exit).not.toHaveBeenCalled()
  await vi.advanceTimersByTimeAsync(1)
  expect(exit).toHaveBeenCalledWith(1)
  expect(JSON.stringify(lines())).toContain('process.stop_seconds (7)')
  hanging.resolve()
  await running
})

test('parts are closed in reverse order, and one that does not close is logged and does not keep others open', async () => {
  const { logger, lines } = recordingLogger()
  const cleanup = openCleanup(logger)
  const closed: string[] = []
  for (const part of ['store', 'sink', 'source']) {
    cleanup.add(async () => {
      if (part === 'sink') throw new Error('the sink does not close')
      closed.push(part)
    })
  }
  expect(await cleanup.close()).toMatchObject({ message: 'the sink does not close' })
  expect(closed).toEqual(['source', 'store'])
  expect(lines()).toMatchObject([{ msg: 'a component failed to close', err: { message: 'the sink does not close' } }])
  expect(await cleanup.close()).toBeUndefined()
  expect(closed).toEqual(['source', 'store'])
})
