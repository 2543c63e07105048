// A `describe` over a server that this machine may not have.

import { describe, test } from 'vitest'

/**
 * Where the server cannot be had, the suite is skipped, loudly and with the command that helps; with CI=true that is a failure.
 *
 * @param missing why there is no such server, with that command; undefined where there is one
 */
export function describeUnlessMissing(name: string, missing: string | undefined, suite: () => void): void {
  if (missing === undefined) return void describe(name, suite)
  if (process.env['CI'] === 'true') return test(name, () => Promise.reject(new Error(missing)))
  console.warn(`skipped: ${name}: ${missing}`)
  describe.skip(name, () => test(missing, () => undefined))
}

/** Stands for a server that is not there before the first hook has run. */
export function whenRunning<Server extends object>(server: () => Server | undefined): Server {
  return new Proxy({} as Server, {
    get: (_, key) => {
      const running = server()
      if (running === undefined) throw new Error('the server runs while tests and hooks do, not while they are collected')
      return Reflect.get(running, key) as unknown
    },
  })
}
