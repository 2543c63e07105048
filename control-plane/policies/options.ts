// The section `policies`: where policies are kept, and how to reach an OpenFGA server.

import { type Static, Type } from 'typebox'
import type { OptionFault } from '../../config/options/options.ts'

export const policiesOptions = Type.Object({
  store: Type.Enum(['relational', 'openfga'], {
    default: 'relational',
    description:
      'Where policies are kept: in the database, or (only `api`) in OpenFGA. Policies are not copied: after a change run `./sluice policies repair`.',
  }),
  openfga: Type.Object({
    url: Type.String({
      default: 'http://127.0.0.1:8080',
      minLength: 1,
      allowed: 'a URL such as http://openfga:8080',
      description: 'HTTP address of the OpenFGA server.',
    }),
    key: Type.Optional(Type.String({ minLength: 1, secret: true, description: 'Its preshared key, if it requires one.' })),
    timeoutMs: Type.Integer({
      default: 2_000,
      minimum: 10,
      maximum: 60_000,
      description: 'Milliseconds that an answer may take; then the request gets 503.',
    }),
  }),
})
export type PoliciesOptions = Static<typeof policiesOptions>

/** Faults that a schema cannot express. */
export function policiesFaults({ openfga: { url } }: PoliciesOptions): OptionFault[] {
  const parsed = URL.canParse(url) ? new URL(url) : undefined
  const note = (problem: string): OptionFault[] => [{ place: 'policies.openfga.url', problem }]
  if (parsed === undefined || !/^https?:$/.test(parsed.protocol) || parsed.search !== '' || parsed.hash !== '')
    return note('is not the address of an HTTP server: give a URL such as http://openfga:8080')
  if (parsed.username !== '' || parsed.password !== '')
    return note('contains a user or a password: set the preshared key in SVC_POLICIES_OPENFGA_KEY instead')
  return []
}
