// The service token is replaced in three steps: in each of them every process is accepted, as long as they are at most one step apart.

import { expect, test } from 'vitest'
import type { ControlOptions } from '../../control-plane/remote/options.ts'
import { openRoleAccess } from '../../roles/remote-access.ts'
import { openInstance } from '../control-plane/internal/instance.ts'
import { absentId, controlPlaneOutage, recordingLogger } from '../control-plane/platform.ts'
import { describeWithPostgres } from '../servers/postgres.ts'

const [before, after] = ['the-token-of-before', 'the-token-of-afterwards']
const steps = [before, `${before},${after}`, `${after},${before}`, after]

describeWithPostgres('the service token', postgres => {
  test('a process in the same step as an api, in the one before or the one after, is accepted; an unknown token is refused', async () => {
    const url = await postgres.createDatabase()
    for (const [step, token] of steps.entries()) {
      const { internalUrl, logged } = await openInstance(url, { token })
      for (const shown of steps.slice(Math.max(0, step - 1), step + 2))
        expect([token, shown, await askedWith(internalUrl, shown)]).toEqual([token, shown, 'unauthenticated'])
      for (const shown of [step === 0 ? after : 'an-unknown-token', step === 3 ? before : `${before}s`])
        expect(await askedWith(internalUrl, shown)).toMatch(/refuses the token of this process/)
      for (const secret of [before, after]) expect(logged()).not.toContain(secret)
    }
  })
})

/** The control plane's answer about an unknown key to a role with this token, or why there is none. */
async function askedWith(url: string, token: string): Promise<string> {
  const { logger } = recordingLogger()
  const cleanup: (() => Promise<void>)[] = []
  const options: ControlOptions = { url, token, grantSeconds: 60, grantsMax: 10 }
  const role = await openRoleAccess(options, controlPlaneOutage(logger), close => void cleanup.push(close))
  try {
    await role.startCheck.run(() => undefined)
    const credential = { scheme: 'Thing', secret: 'none' } as const
    const access = await role.access.authorize({ credential, channel: absentId, action: 'publish' })
    return access.allowed ? 'allowed' : access.reason
  } catch (error) {
    return (error as Error).message
  } finally {
    for (const close of cleanup.toReversed()) await close()
  }
}
