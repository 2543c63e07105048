// A `describe` with a server that may not be available on this machine.

import { afterAll, beforeAll, describe, test } from 'vitest'

/**
 * If the server is not available, the suite is skipped, with the command that helps; with CI=true that is a failure.
 *
 * @param missing why it is not available, with that command; undefined if it is
 */
export function describeUnlessMissing(name: string, missing: string | undefined, suite: () => void): void {
  if (missing === undefined) return void describe(name, suite)
  if (process.env['CI'] === 'true') return test(name, () => Promise.reject(new Error(missing)))
  console.warn(`skipped: ${name}: ${missing}`)
  describe.skip(name, () => test(missing, () => undefined))
}

/**
 * A `describe` with a separate server, like `describeUnlessMissing`.
 *
 * @param suite gets the server, which runs during tests and hooks
 * @param startMsMax including its installation
 */
export function describeWithServer<Server extends { stop(): Promise<void> }>(
  name: string,
  missing: string | undefined,
  start: () => Promise<Server>,
  suite: (server: Server) => void,
  startMsMax = 600_000,
): void {
  describeUnlessMissing(name, missing, () => {
    let server: Server | undefined
    beforeAll(async () => {
      server = await start()
    }, startMsMax)
    afterAll(() => server?.stop())
    suite(whenRunning(() => server))
  })
}

/**
 * A `describe` with a server that the suites of a run share, like `describeUnlessMissing`: the first one starts it (`run-setup.ts`), and none damages it.
 *
 * @param request resolves with how to reach it; may include its installation
 * @param suite gets that, during tests and hooks
 */
export function describeWithShared<Access extends object>(
  name: string,
  missing: string | undefined,
  request: () => Promise<Access>,
  suite: (access: Access) => void,
): void {
  describeUnlessMissing(name, missing, () => {
    let access: Access | undefined
    beforeAll(async () => {
      access = await request()
    }, 1_800_000)
    suite(whenRunning(() => access))
  })
}

/** Stands for a server that is started by the first hook. */
export function whenRunning<Server extends object>(server: () => Server | undefined): Server {
  return new Proxy({} as Server, {
    get: (_, key) => {
      const running = server()
      if (running === undefined) throw new Error('the server runs while tests and hooks do, not while they are collected')
      return Reflect.get(running, key) as unknown
    },
  })
}
