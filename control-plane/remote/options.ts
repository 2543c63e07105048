// The section `control`: the address of the control plane, the credentials for it, and how long its grants are cached.

import { type Static, Type } from 'typebox'
import type { OptionFault } from '../../config/options/options.ts'
import { serviceTokenOption } from '../internal/options.ts'

export const controlOptions = Type.Object({
  url: Type.String({
    default: 'http://127.0.0.1:9080',
    minLength: 1,
    allowed: 'a URL such as http://api:9080 or https://api:9080',
    description: 'The internal listener of the control plane (`internal.listen` of `./sluice api`).',
  }),
  token: Type.Optional(
    Type.String({ ...serviceTokenOption, description: 'Token for the control plane (its `internal.token`); of several, the first.' }),
  ),
  certFile: Type.Optional(Type.String({ minLength: 1, description: 'Client certificate for the control plane (mutual TLS), as PEM.' })),
  keyFile: Type.Optional(Type.String({ minLength: 1, description: 'Private key of that certificate, as PEM.' })),
  caFile: Type.Optional(
    Type.String({ minLength: 1, description: "Authority of the control plane's certificate, as PEM, instead of the system's." }),
  ),
  grantSeconds: Type.Integer({
    default: 60,
    minimum: 0,
    maximum: 3_600,
    description: 'Seconds for which a grant is cached. A change ends it; without the stream of changes it lasts 5 s.',
  }),
  grantsMax: Type.Integer({
    default: 100_000,
    minimum: 1,
    maximum: 10_000_000,
    description: 'Grants in the cache, about 1 KB each.',
  }),
})
export type ControlOptions = Static<typeof controlOptions>

/** Faults that a schema cannot express. */
export function controlFaults({ url, certFile, keyFile, caFile }: ControlOptions): OptionFault[] {
  const faults: OptionFault[] = []
  const note = (place: string, problem: string): void => void faults.push({ place: `control.${place}`, problem })
  const parsed = URL.canParse(url) ? new URL(url) : undefined
  if (parsed === undefined || !/^https?:$/.test(parsed.protocol) || parsed.search !== '' || parsed.hash !== '') {
    note('url', 'is not the address of an HTTP server: give a URL such as http://api:9080')
  } else if (parsed.username !== '' || parsed.password !== '') {
    note('url', 'contains a user or a password: set the token in SVC_CONTROL_TOKEN instead')
  } else if (parsed.protocol === 'http:' && [certFile, keyFile, caFile].some(file => file !== undefined)) {
    note(
      'url',
      'does not use TLS, which certificates need: write https://, or unset control.cert_file, control.key_file and control.ca_file',
    )
  }
  if ((certFile === undefined) !== (keyFile === undefined)) {
    note('cert_file', 'control.cert_file and control.key_file belong together: set both or neither')
  }
  return faults
}
