// The sections `users`, `tokens`, `audit` and `admin`: who may register, how long a token lives, how long changes are told, and who is the first
// administrator.

import { type Static, Type } from 'typebox'
import type { Compatibility } from '../config/http/older-clients.ts'
import type { OptionFault } from '../config/options.ts'
import type { CertificatesOptions } from './certificates/options.ts'
import type { PoliciesOptions } from './policies/options.ts'
import type { ProvisionOptions } from './provisioning/options.ts'
import { credentialFaults } from './users/credentials.ts'

export const usersOptions = Type.Object({
  allowSelfRegister: Type.Boolean({
    default: true,
    description: 'Whether anybody may register. With false only an administrator creates users.',
  }),
})

export const tokensOptions = Type.Object({
  lifetimeSeconds: Type.Integer({
    default: 36_000,
    minimum: 60,
    maximum: 31_536_000,
    description: 'Seconds after which a token ends. A password change ends it earlier.',
  }),
})

export const auditOptions = Type.Object({
  retentionDays: Type.Integer({
    default: 365,
    minimum: 1,
    maximum: 36_500,
    description: 'Days for which the audit log tells who changed what.',
  }),
})

export const adminOptions = Type.Object({
  email: Type.String({ default: 'admin@sluice.local', description: 'Email of the administrator that the first start makes.' }),
  password: Type.Optional(
    Type.String({
      minLength: 8,
      secret: true,
      description:
        'Its password. Without one `sluice up` makes one and writes it to `admin-password` in the data folder, and `sluice api` makes no administrator.',
    }),
  ),
})
export type AdminOptions = Static<typeof adminOptions>

/** What a registration would refuse of the administrator. */
export function adminFaults({ email, password = 'not given: nothing to check' }: AdminOptions): OptionFault[] {
  return credentialFaults({ email, password }).map(({ pointer, detail }) => ({
    place: pointer.replace('/body/', 'admin.'),
    problem: detail,
  }))
}

export const services = ['core', 'provision', 'bootstrap', 'certs'] as const

export const servicesOption = Type.Array(Type.Enum([...services]), {
  default: [...services],
  minItems: 1,
  flag: '--services',
  description:
    'Whose routes are served: core (users, tokens, keys, things, channels, groups, policies, the audit log), provision (`/mapping`), bootstrap (`/things/configs`, `/things/bootstrap`), certs (`/certs`).',
})

export interface ControlPlaneOptions {
  readonly users: Static<typeof usersOptions>
  readonly tokens: Static<typeof tokensOptions>
  readonly audit: Static<typeof auditOptions>
  readonly policies: PoliciesOptions | { readonly store: 'relational' }
  readonly certificates: CertificatesOptions
  readonly compatibility: Compatibility
  /** How devices are provisioned; the defaults of a platform without a layout file where it is left out. */
  readonly provisioning?: Pick<ProvisionOptions, 'layout' | 'credentials' | 'externalKeyBytesMin'>
  /** All of them where it is left out. */
  readonly services?: readonly (typeof services)[number][]
}
