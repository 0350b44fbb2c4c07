package oracle;

/** A version range of the schema language: `N`, `N+`, `N-M`, `none`. */
record Versions(int low, int high) {
    static final Versions NONE = new Versions(0, -1);

    static Versions parse(String text) {
        text = text.trim();
        if (text.equals("none")) {
            return NONE;
        }
        int dash = text.indexOf('-');
        if (dash > 0) {
            return new Versions(Integer.parseInt(text.substring(0, dash)), Integer.parseInt(text.substring(dash + 1)));
        }
        if (text.endsWith("+")) {
            return new Versions(Integer.parseInt(text.substring(0, text.length() - 1)), Short.MAX_VALUE);
        }
        int only = Integer.parseInt(text);
        return new Versions(only, only);
    }

    boolean has(int version) {
        return low <= version && version <= high;
    }
}
