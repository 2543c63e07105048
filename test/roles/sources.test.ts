// Where a role's options come from: other roles are loaded only if the environment contains unknown variables, which may be theirs.

import { afterEach, expect, test, vi } from 'vitest'
import { loadOptions } from '../../config/options/options.ts'
import { roleOfStore, roles, sources } from '../../roles/roles.ts'

afterEach(() => void vi.unstubAllEnvs())

test.each(Object.keys(roles))('the variables of all roles are accepted by %s; one of no role is refused', async name => {
  const { schema } = await roles[name]!()
  vi.stubEnv('SVC_HTTP_PORT', '9000')
  vi.stubEnv('SVC_WORKERS_COUNT', '2')
  vi.stubEnv('SVC_PROVISION_CONFIG_PATH', '')
  vi.stubEnv('SVC_TOKEN', 'of a tool')
  const told = async (): Promise<string> => {
    try {
      return JSON.stringify(loadOptions(schema, await sources(schema, undefined)))
    } catch (error) {
      return String(error)
    }
  }
  expect(await told()).not.toMatch(/unknown variable/)
  vi.stubEnv('SVC_WORKERS_COUNTS', '2')
  expect(await told()).toMatch(/SVC_WORKERS_COUNTS: unknown variable: did you mean SVC_WORKERS_COUNT\?/)
})

test('if the environment has only variables of this role, no other role is loaded', async () => {
  const { schema } = await roles[roleOfStore('writer', 'relational')]!()
  for (const name of Object.keys(process.env)) if (name.startsWith('SVC_')) vi.stubEnv(name, undefined)
  vi.stubEnv('SVC_WORKERS_COUNT', '2')
  vi.stubEnv('SVC_RELATIONAL_WRITER_CONFIG_PATH', 'writer.toml')
  expect((await sources(schema, undefined, {}, 'SVC_RELATIONAL_WRITER_CONFIG_PATH')).otherVariables).toEqual([])
  vi.stubEnv('SVC_DATABASE_URL', 'postgres://db/sluice')
  expect((await sources(schema, undefined)).otherVariables).toContain('SVC_DATABASE_URL')
})
